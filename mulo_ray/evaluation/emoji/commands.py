"""How the files of the kit are made again: the captions from the emoji sets, the rest from their pictures."""

import json
from dataclasses import dataclass
from pathlib import Path

from mulo_ray.evaluation.emoji.fit import KitOptions, fit_kit
from mulo_ray.evaluation.emoji.kit import FOLDER, save_kit
from mulo_ray.evaluation.emoji.prompts import EVAL_PROMPTS, draw_prompts, read_eval_prompts, write_prompts
from mulo_ray.models.catalog import read_card
from mulo_ray.models.emoji.tokenizer import load_vq
from mulo_ray.training.emoji_sources import fetch, read_icons
from mulo_ray.training.held_out import read_splits
from mulo_ray.training.pictures import load_pictures


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """What the kit is made from."""

    data: Path = Path("train/data")
    """Picture set of `jobs/train.py data`."""
    weights: str | None = None
    """Folder whose tokenizer the stored round trips are made with; the package's own by default."""
    cache: Path = Path("train/features")
    """Where features are kept: a first pass over the set takes minutes."""
    views: int = 1
    """Random views of each picture that the judge is trained on besides the picture itself."""
    out: Path = FOLDER
    """Folder for kit.npz and kit.json."""


def fit(options: FitOptions) -> None:
    """Make kit.npz and kit.json: statistics of real pictures, the judge, and what it says of real pictures."""
    vq = load_vq(read_card("emoji", options.weights).folder)
    pictures = load_pictures(options.data, 128)
    kit = fit_kit(pictures, read_eval_prompts(), vq, options.cache, KitOptions(views=options.views))
    save_kit(kit, options.out)
    print(json.dumps({name: value for name, value in kit.figures.items() if name != "round_trip_ranks"}, indent=1))


def prompts(icons: Path = Path("train/icons"), seed: int = 2026, out: Path = EVAL_PROMPTS) -> None:
    """Draw eval_prompts.jsonl from the emoji packages (npm, or ICONS where they lie)."""
    fetch(icons)
    drawn = draw_prompts(read_icons(icons), *read_splits(), seed=seed)
    write_prompts(drawn, out)
    print(json.dumps({"captions": len(drawn), "file": str(out)}))
