"""Free emoji art as SVG, and what each picture shows: a concept of Unicode with its label and keywords.

Reads the @iconify-json packages (drawings) and emojibase-data (names) of npm. Knows nothing of pixels or training.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mulo_ray.errors import UsageError

STYLES = {"noto": "noto", "twemoji": "twemoji", "fluent": "fluent-emoji-flat"}
"""Style word in captions -> @iconify-json package."""

NAMES = "emojibase-data"

_MIRRORED = frozenset(
    "animal-mammal animal-bird animal-amphibian animal-reptile animal-marine animal-bug plant-flower plant-other "
    "food-fruit food-vegetable food-prepared food-asian food-sweet drink transport-ground transport-water "
    "person-activity person-sport".split()
)
"""Subgroups of which a mirror image shows the same thing (no writing, no left or right in the name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """What an emoji stands for, in words. `code` is its hexadecimal sequence without variation selectors."""

    code: str
    name: str
    keywords: tuple[str, ...] = ()
    group: str = ""

    @property
    def mirrors(self) -> bool:
        """Whether a mirror image shows the same."""
        return self.group in _MIRRORED


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    """One picture: its style, what it shows, and its drawing on a square canvas."""

    style: str
    concept: Concept
    svg: str

    @property
    def key(self) -> str:
        return f"{self.style}/{self.concept.name.replace(' ', '-')}"


def fetch(folder: Path) -> None:
    """Install the npm packages under `folder` unless they are there."""
    wanted = [f"@iconify-json/{package}" for package in STYLES.values()] + [NAMES]
    missing = [package for package in wanted if not (folder / "node_modules" / package).is_dir()]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            ["npm", "install", "--no-save", "--prefix", str(folder), *missing], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"the emoji packages {missing} could not be installed into {folder} ({error}); "
            "install Node.js, or put the packages under that folder's node_modules"
        ) from error


def read_icons(folder: Path) -> list[Icon]:
    """Every emoji of the three sets that Unicode names, one drawing per style, in a fixed order.

    Skin tones, keycaps and drawings without a code are left out.
    """
    concepts = _read_concepts(folder / "node_modules" / NAMES)
    return [icon for style, package in STYLES.items() for icon in _read_set(folder, package, style, concepts)]


def _read_concepts(package: Path) -> dict[str, Concept]:
    records = json.loads((package / "en" / "data.json").read_text(encoding="utf-8"))
    groups = json.loads((package / "meta" / "groups.json").read_text(encoding="utf-8"))["subgroups"]
    concepts = {}
    for record in records:
        name = " ".join(record["label"].lower().replace(":", " ").replace(",", " ").split())
        if name.startswith("keycap"):
            continue
        code = _plain(record["hexcode"])
        group = groups.get(str(record.get("subgroup")), "")
        concepts[code] = Concept(code=code, name=name, keywords=tuple(record.get("tags", ())), group=group)
    return concepts


def _plain(code: str) -> str:
    return code.lower().replace("-fe0f", "")


def _read_set(folder: Path, package: str, style: str, concepts: dict[str, Concept]) -> list[Icon]:
    root = folder / "node_modules" / "@iconify-json" / package
    data = json.loads((root / "icons.json").read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for code, name in json.loads((root / "chars.json").read_text(encoding="utf-8")).items():
        names.setdefault(_plain(code), name)
    return [
        Icon(style=style, concept=concepts[code], svg=_square_svg(data["icons"][name], data))
        for code, name in sorted(names.items())
        if code in concepts and name in data["icons"]
    ]


def _square_svg(icon: dict[str, object], data: dict[str, object]) -> str:
    def size(field: str, default: float) -> float:
        value = icon.get(field, data.get(field, default))
        assert isinstance(value, int | float), f"{field} of an icon is {value!r}"
        return float(value)

    width, height = size("width", 16), size("height", 16)
    side = max(width, height)
    left = size("left", 0) - (side - width) / 2
    top = size("top", 0) - (side - height) / 2
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{left} {top} {side} {side}">{icon["body"]}</svg>'
    )
