"""compare.json and compare.html of a comparison of methods."""

from markupsafe import Markup

from mulo_ray.evaluation.finished import RunStore
from mulo_ray.evaluation.methods import plots
from mulo_ray.evaluation.methods.cells import MethodsCompared, rows_json
from mulo_ray.evaluation.methods.table import points
from mulo_ray.evaluation.pages import render
from mulo_ray.evaluation.pictures import thumbnail_uri

COMPARE_JSON, COMPARE_HTML = "compare.json", "compare.html"
MAX_SHEETS = 12


def write_methods(store: RunStore, compared: MethodsCompared) -> str:
    """Write both files; where the page is."""
    store.put(COMPARE_JSON, rows_json(compared.rows))
    sheets = [
        {"name": method.name, "images": [thumbnail_uri(png) for png in method.sheet]}
        for method in compared.methods
        if method.sheet
    ]
    page = render(
        "methods.html.j2",
        compared=compared,
        against=[method for method in compared.methods if method.top5_difference is not None],
        points=points,
        quality_svg=Markup(plots.quality_svg(compared.rows)),
        batch_svg=Markup(plots.batch_svg(compared.rows)),
        rejections_svg=Markup(plots.rejections_svg(compared.methods)),
        phases_svg=Markup(plots.phases_svg(compared.methods)),
        sheets=sheets[:MAX_SHEETS],
    )
    store.put(COMPARE_HTML, page.encode("utf-8", "replace"))
    return store.uri_of(COMPARE_HTML)
