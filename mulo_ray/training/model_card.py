"""The model card of a family folder, README.md beside its weights: networks, data, figures, limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Card = Mapping[str, Any]

_EMOJI_DATA = """\
{pictures:,} drawings of Unicode emoji in three styles, drawn from SVG on white: Noto Emoji (Google, Apache-2.0),
Twemoji (Twitter and contributors, graphics CC-BY 4.0) and Fluent Emoji, flat style (Microsoft, MIT); names and keywords
from emojibase-data (MIT). Skin-tone variants and keycaps are left out. Two lists of pictures were never trained on:
whole concepts, and concepts in one of their styles. The weights are under Apache-2.0; full notices are in NOTICE at the
root of the repository.
"""
_OWN_DATA = "A picture set of {pictures} pictures; their licences are whoever made the set's to state.\n"
_EMOJI_LIMITS = """\
- It draws emoji and nothing else. A caption of a scene gives one thing of it.
- Small models that have seen every picture many times: what they were trained on they nearly know by heart, and a
  concept that no style showed them comes out as something of its kind at best.
- Words are read one by one: order and grammar hardly count ("a dog on a cat" is "a cat on a dog").
- Unknown words, other scripts and numbers are no error and mean little. English only.
- At high temperature or strong guidance shapes fall apart; the defaults below are what it was judged with.
"""


def model_card(card: Card, pictures: int, embedded: bool, figures: Sequence[Card]) -> str:
    """Markdown with the hub's front matter; `figures` are lines of an `emoji.json`, where the family was evaluated."""
    parts = [
        "---\nlicense: apache-2.0\nlibrary_name: mulo_ray\npipeline_tag: text-to-image\n---",
        f"# {card['name']}\n\nA tokenizer and {len(card['scales'])} autoregressive scales that share it, for plain and "
        "for multi-scale local speculative decoding. `family.json` says the same to programs.",
        "## Networks\n\n" + _table(_networks(card), ("file", "parameters", "steps", "seed", "last figures")),
        "## Data and licences\n\n" + (_EMOJI_DATA if embedded else _OWN_DATA).format(pictures=pictures).rstrip(),
    ]
    if figures:
        lines = [[one["name"], _short(one["value"]), one["unit"], _short(one["goal"]), one["note"]] for one in figures]
        how = f"By `{figures[0]['command']}`:\n\n"
        parts.append("## How good it is\n\n" + how + _table(lines, ("figure", "value", "unit", "goal", "note")))
    parts.append("## Defaults\n\n" + _table(_defaults(card), ("pair", "options")))
    if embedded:
        parts.append("## Known weaknesses\n\n" + _EMOJI_LIMITS.rstrip())
    return "\n\n".join(parts) + "\n"


def _networks(card: Card) -> Iterator[list[str]]:
    for part in [
        card["tokenizer"],
        *(entry for kind in ("scales", "rescalers", "heads") for entry in card[kind].values()),
    ]:
        told = {name: value for name, value in part.items() if isinstance(value, float) and name != "epoch"}
        figures = ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in told.items())
        yield [part["file"], f"{part['parameters']:,}", f"{part['steps']:,}", str(part.get("seed", 0)), figures]


def _defaults(card: Card) -> Iterator[list[str]]:
    pairs = {"-".join(map(str, card["default_pair"])): {}} | card["pair_defaults"]
    for pair, own in pairs.items():
        yield [pair, ", ".join(f"{name} {value}" for name, value in {**card["defaults"], **own}.items())]


def _table(rows: Iterator[list[str]] | Sequence[list[str]], head: Sequence[str]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
