"""The 64 captions that ship with the package: everyday things, most of them known to the embedded family.

Written for this project in the manner of COCO; none is a COCO caption. Knows no other file.
"""

from importlib.resources import as_file, files

from mulo_ray.prompts.read import read_prompts
from mulo_ray.types import Prompt


def embedded_captions(limit: int | None = None) -> list[Prompt]:
    """The packaged captions, keyed "001" to "064"."""
    with as_file(files("mulo_ray.prompts") / "captions.jsonl") as path:
        return read_prompts(str(path), limit=limit)
