"""The captions of the evaluation: each names a concept, and says whether training has seen that concept so drawn.

Drawn once from the emoji sets by a seed and kept in `eval_prompts.jsonl`. Knows no picture and no network.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mulo_ray.training.emoji_sources import Icon
from mulo_ray.training.held_out import COMBINATION, CONCEPT, TRAIN, split_of

EVAL_PROMPTS = Path(__file__).parent / "eval_prompts.jsonl"
SHEET_PROMPTS = Path(__file__).parent / "sheet_prompts.txt"
SEEN = "seen"
SPLITS = (SEEN, COMBINATION, CONCEPT)

_PLAIN = ("{}", "{a}", "an emoji of {a}", "a picture of {a}", "a simple drawing of {a}", "{} icon", "{}, flat colors")
_STYLED = ("{} in {style} style", "a {style} emoji of {a}", "{style} {}", "{}, {style}", "{} drawn like {style}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPrompt:
    """`picture` is the key of a real picture that the caption describes; `code` and `name` are its concept's."""

    key: str
    text: str
    code: str
    name: str
    split: str
    picture: str


def draw_prompts(
    icons: Sequence[Icon], concepts: frozenset[str], combinations: frozenset[str], *, seen: int = 1000, seed: int = 2026
) -> list[EvalPrompt]:
    """`seen` captions of as many trained concepts, one of every held-out combination and of every held-out concept.

    In random order, so that any first part holds all three. A held-out picture is never behind a seen caption.
    """
    rng = random.Random(seed)
    splits: dict[str, list[Icon]] = {TRAIN: [], COMBINATION: [], CONCEPT: []}
    for icon in rng.sample(list(icons), len(icons)):
        splits[split_of(icon, concepts, combinations)].append(icon)
    one_each = {split: list({icon.concept.name: icon for icon in found}.values()) for split, found in splits.items()}
    chosen = one_each[TRAIN][:seen] + splits[COMBINATION] + one_each[CONCEPT]
    rng.shuffle(chosen)
    drawn = []
    for number, icon in enumerate(chosen):
        split = split_of(icon, concepts, combinations)
        styled = split == COMBINATION or rng.random() < 0.4
        template = rng.choice(_STYLED if styled else _PLAIN)
        name = _spoken(icon, rng)
        drawn.append(
            EvalPrompt(
                key=f"eval-{number:04d}",
                text=template.format(name, a=_with_article(name), style=icon.style),
                code=icon.concept.code,
                name=icon.concept.name,
                split=SEEN if split == TRAIN else split,
                picture=icon.key,
            )
        )
    return drawn


def write_prompts(prompts: Sequence[EvalPrompt], path: Path = EVAL_PROMPTS) -> None:
    """One JSON object per line, the concept as {"code", "name"}."""
    lines = []
    for prompt in prompts:
        fields = asdict(prompt)
        concept = {"code": fields.pop("code"), "name": fields.pop("name")}
        lines.append(json.dumps(fields | {"concept": concept}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_eval_prompts(limit: int | None = None, path: Path = EVAL_PROMPTS) -> list[EvalPrompt]:
    """The captions of the package, or the first `limit` of them."""
    lines = path.read_text(encoding="utf-8").splitlines()[:limit]
    return [_prompt(json.loads(line)) for line in lines]


def read_sheet_prompts() -> list[str]:
    """Sixty-four captions that a person might type, for the eye and for blind matching."""
    return SHEET_PROMPTS.read_text(encoding="utf-8").splitlines()


def _prompt(fields: dict[str, Any]) -> EvalPrompt:
    return EvalPrompt(**fields.pop("concept"), **fields)


def _spoken(icon: Icon, rng: random.Random) -> str:
    """The name as people say it: "flag of japan", or now and then with a keyword."""
    name = icon.concept.name
    if icon.concept.group == "country-flag":
        return name.replace("flag ", "flag of ", 1)
    if icon.concept.keywords and rng.random() < 0.15:
        return f"{name}, {rng.choice(icon.concept.keywords)}"
    return name


def _with_article(name: str) -> str:
    if name.split(",")[0].endswith("s") or name.startswith(("flag ", "the ")):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
