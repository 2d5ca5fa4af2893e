"""Free emoji art as SVG: which packages, which pictures of them, and what each is called.

Reads the @iconify-json packages of npm (one icons.json each). Knows nothing of pixels or training.
"""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mulo_ray.errors import UsageError

STYLES = {"noto": "noto", "twemoji": "twemoji", "fluent": "fluent-emoji-flat"}
"""Style word in captions -> @iconify-json package."""

_TONE = re.compile(r"-(?:medium-light|medium-dark|light|medium|dark)(?:-skin-tone)?(?=-|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    """One picture: its style, its name in words, and its drawing on a square canvas."""

    style: str
    name: str
    svg: str

    @property
    def key(self) -> str:
        return f"{self.style}/{self.name.replace(' ', '-')}"


def fetch(folder: Path) -> None:
    """Install the three npm packages under `folder` unless they are there."""
    missing = [f"@iconify-json/{package}" for package in STYLES.values() if not _icons_file(folder, package).exists()]
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
            "install Node.js, or put the packages under that folder's node_modules/@iconify-json"
        ) from error


def read_icons(folder: Path) -> list[Icon]:
    """Every emoji of the three sets, skin-tone variants and keycaps left out, in a fixed order."""
    return [icon for style, package in STYLES.items() for icon in _read_set(_icons_file(folder, package), style)]


def _icons_file(folder: Path, package: str) -> Path:
    return folder / "node_modules" / "@iconify-json" / package / "icons.json"


def _read_set(path: Path, style: str) -> list[Icon]:
    data = json.loads(path.read_text(encoding="utf-8"))
    icons = data["icons"]
    kept = [name for name in sorted(icons) if not _is_variant(name, icons)]
    return [Icon(style=style, name=name.replace("-", " "), svg=_square_svg(icons[name], data)) for name in kept]


def _is_variant(name: str, icons: dict[str, object]) -> bool:
    if "keycap" in name or "skin-tone" in name:
        return True
    base = _TONE.sub("", name)
    return base != name and base in icons


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
