"""COCO captions: one JSON object with `images` and `annotations`, several captions per image.

The rule that picks captions decides published scores, so it is an option:
  longest  per image the caption with most characters as written; the lowest annotation id on a tie
  first    per image the caption with the lowest annotation id
  all      every caption, keyed image-annotation
Images come in the order of their first annotation in the file (the order of the common 5k protocol). Shuffling the
annotations moves images, never the caption or the key of one. Captions lose blanks at both ends, and a line end
inside becomes one space. Knows no zip, no download.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mulo_ray.errors import UsageError
from mulo_ray.prompts.rows import CaptionRule, failed_key
from mulo_ray.prompts.usable import caption_error, id_text
from mulo_ray.types import Prompt

log = logging.getLogger(__name__)


def prompts_from_coco(document: dict[str, Any], name: str, captions: CaptionRule) -> list[Prompt]:
    """The prompts of a parsed COCO captions file; keys are image ids in 12 digits ("000000391895").

    Raises UsageError when there are no annotations, or annotations of another kind than captions.
    """
    annotations = document.get("annotations")
    if not isinstance(annotations, list) or not annotations:
        keys = ", ".join(map(repr, document)) or "nothing"
        raise UsageError(f"{name} has no 'annotations' list; a COCO captions file has one, this one holds {keys}")
    if not any(isinstance(a, dict) and "caption" in a for a in annotations):
        fields = ", ".join(map(repr, annotations[0])) if isinstance(annotations[0], dict) else repr(annotations[0])
        raise UsageError(f"no annotation of {name} has a 'caption' (they hold {fields}); use COCO's captions_*.json")
    by_image: dict[str, list[dict[str, Any]]] = {}
    orphans = []
    for position, annotation in enumerate(annotations, start=1):
        image = _image_key(annotation.get("image_id")) if isinstance(annotation, dict) else None
        if image is None:
            place = f"{name} annotation {position}"
            error = f"{place}: its 'image_id' is missing or null; an image id names the picture"
            orphans.append(Prompt(key=failed_key(place), text="", source=place, error=error))
        else:
            by_image.setdefault(image, []).append(annotation)
    _log_counts(document.get("images"), by_image, len(annotations), name)
    chosen = (
        _prompt(image, annotation, name, captions)
        for image, group in by_image.items()
        for annotation in _choose(group, captions)
    )
    return [*chosen, *orphans]


def _choose(group: Sequence[dict[str, Any]], captions: CaptionRule) -> Sequence[dict[str, Any]]:
    by_id = sorted(group, key=_order)
    if captions == "all":
        return by_id
    usable = [a for a in by_id if caption_error(a.get("caption")) is None] or by_id
    if captions == "longest":  # max keeps the first on a tie
        return [max(usable, key=lambda a: len(a["caption"]) if isinstance(a.get("caption"), str) else 0)]
    return usable[:1]


def _prompt(image: str, annotation: dict[str, Any], name: str, captions: CaptionRule) -> Prompt:
    number = id_text(annotation.get("id"))
    place = f"{name} annotation {number}"
    error = caption_error(annotation.get("caption"))
    text = "" if error else re.sub(r"\s*[\r\n]+\s*", " ", annotation["caption"].strip())
    key = image
    if captions == "all":
        key = f"{image}-{number}"
        if number is None:
            key, error = failed_key(f"{place} of image {image}"), "its 'id' is missing or null"
    return Prompt(key=key, text=text, source=place, error=error and f"{place} (image {image}): {error}")


def _order(annotation: dict[str, Any]) -> tuple[bool, int, str, str]:
    """By id, numbers first and as numbers; then by caption, so that the file's order decides nothing."""
    number = annotation.get("id")
    is_int = isinstance(number, int)
    return (not is_int, number if isinstance(number, int) else 0, str(number), str(annotation.get("caption")))


def _image_key(value: Any) -> str | None:
    text = id_text(value)
    return text.zfill(12) if text is not None and text.isascii() and text.isdigit() else text


def _log_counts(images: Any, by_image: Iterable[str], annotations: int, name: str) -> None:
    listed = {_image_key(i.get("id")) for i in images if isinstance(i, dict)} if isinstance(images, list) else set()
    without = len(listed.difference(by_image))
    note = f"; {without} images have no caption and make nothing" if without else ""
    log.info("%s: %d captions of %d images%s", name, annotations, len(set(by_image)), note)
