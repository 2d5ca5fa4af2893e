"""A family folder from checkpoints: float16 safetensors, the word list and card. In the layout catalog.py reads."""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from mulo_ray.errors import UsageError
from mulo_ray.models.emoji.card import read_card
from mulo_ray.models.emoji.network import STRIDE
from mulo_ray.models.emoji.tokenizer import build_vq
from mulo_ray.models.text import vocabulary
from mulo_ray.training.checkpoints import load_state
from mulo_ray.training.emoji_sources import STYLES
from mulo_ray.training.folders import Folder
from mulo_ray.training.model_card import model_card
from mulo_ray.training.pictures import load_pictures
from mulo_ray.training.starts import PACKAGE_WEIGHTS
from mulo_ray.training.tokens import fingerprint

DEFAULT_PAIR = (64, 128)
_SIDES = (32, 64, 128)
_STATED = ("config", "sizes", "tokenizer", "seed")
"""What a stage's checkpoint says that its line of the card repeats."""
FIRST_DEFAULTS: dict[str, Any] = {
    "guidance": 1.5,
    "temperature": 0.3,
    "tau": 0.0001,
    "neighbours": 256,
    "radius": 0,
    "redraw": "islands",
    "rows_per_cycle": 0,
    "zipar_window": 8,
    "upsampler": "pixel",
    "refresh_cache": False,
}
"""What a family starts with until a sweep has chosen better (docs/log.md)."""


def publish(data: Path, checkpoints: str | Path, folder: Path, evaluation: Path | None = None) -> dict[str, Any]:
    """Write every finished or half-finished stage found in `checkpoints` to `folder`, card and model card; the card.

    Option defaults are kept from the card already there. `evaluation` is an `emoji.json` of these very weights, whose
    figures stand in the cards until the weights change; UsageError when it is of others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = Folder(checkpoints)
    old = _old_card(folder)
    card: dict[str, Any] = {
        "name": "emoji",
        "default_pair": list(DEFAULT_PAIR),
        "defaults": old.get("defaults") or FIRST_DEFAULTS,
        "pair_defaults": old.get("pair_defaults", {}),
        "tokenizer": _write(place, "tokenizer", folder, {}) or _latest_tokenizer(folder),
    }
    tokenizer = fingerprint(build_vq(card["tokenizer"], folder))
    card["tokenizer"]["fingerprint"] = tokenizer
    same = old.get("tokenizer", {}).get("fingerprint") == tokenizer
    for kind, stage, keys in (
        ("scales", "scale-", _SIDES),
        ("rescalers", "rescaler-x", (2, 4)),
        ("heads", "head-", _SIDES),
    ):
        card[kind] = {}
        for key in keys:
            before = old.get(kind, {}).get(str(key), {}) if same else {}  # weights of another tokenizer are of no use
            entry = _write(place, f"{stage}{key}", folder, before)
            if entry and entry.get("tokenizer", tokenizer) == tokenizer:
                card[kind][str(key)] = entry | ({"side": key // STRIDE} if kind == "scales" else {})
    records = load_pictures(data, 32).records
    words = vocabulary(text for r in records if r.split == "train" for text in (r.name, r.style, *r.keywords))
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "family.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    weights = read_card("emoji", str(folder)).weights_fingerprint
    card["evaluation"] = _figures(evaluation, weights) if evaluation else old.get("evaluation", {})
    if card["evaluation"].get("weights") != weights:
        card["evaluation"] = {}
    (folder / "family.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    embedded = any(record.style in STYLES for record in records)
    page = model_card(card, len(records), embedded, card["evaluation"].get("figures", []))
    (folder / "README.md").write_text(page, encoding="utf-8")
    return card


def _latest_tokenizer(folder: Path) -> dict[str, Any]:
    """Copies the tokenizer that stages without one of their own were trained on; its line of the card."""
    entry: dict[str, Any] = _old_card(PACKAGE_WEIGHTS)["tokenizer"]
    if folder.resolve() != PACKAGE_WEIGHTS.resolve():
        shutil.copyfile(PACKAGE_WEIGHTS / entry["file"], folder / entry["file"])
    return entry


def _figures(path: Path, weights: str) -> dict[str, Any]:
    """Weights and figures of an evaluation."""
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
        found = {"weights": page["weights"], "figures": page["figures"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--evaluation takes the emoji.json of jobs/evaluate.py emoji, got {path} ({error})"
        ) from error
    if found["weights"] != weights:
        raise UsageError(
            f"{path} is of the weights {found['weights']}, those published now are {weights}: evaluate them, then "
            "publish again"
        )
    return found


def _old_card(folder: Path) -> dict[str, Any]:
    path = folder / "family.json"
    card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return card


def _write(place: Folder, stage: str, folder: Path, old: dict[str, Any]) -> dict[str, Any]:
    """One stage's float16 weights and its line of the card; the old line where no checkpoint exists."""
    state = load_state(place, stage)
    if state is None:
        return old
    name = f"{stage}.safetensors"
    save_file({key: value.half().contiguous() for key, value in state["average"].items()}, folder / name)
    (folder / name).chmod(0o644)  # safetensors makes files that only their owner can read
    parameters = sum(value.numel() for value in state["average"].values())
    entry = {"file": name, "steps": state["step"], "parameters": parameters, **_last_metrics(place, stage)}
    return entry | {name: state["extra"][name] for name in _STATED if name in state["extra"]}


def _last_metrics(place: Folder, stage: str) -> dict[str, Any]:
    """The latest value of every figure that training logged, but for its pace."""
    found: dict[str, Any] = {}
    for line in (place.read(f"{stage}.metrics.jsonl") or b"").decode().splitlines():
        found |= json.loads(line)
    return {name: value for name, value in found.items() if name not in ("step", "pictures_per_s", "eta_s", "psnr")}
