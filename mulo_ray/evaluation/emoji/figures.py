"""The figures of a family beside their goals: one line each, for the terminal, emoji.json and a page.

Knows numbers and their names only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mulo_ray.evaluation.emoji.prompts import SPLITS
from mulo_ray.evaluation.emoji.scoring import Rates, Scores
from mulo_ray.evaluation.pages import short

GOALS = {
    "tokenizer: PSNR at 128 px": 26.0,
    "tokenizer: PSNR at 64 px": 23.0,
    "tokenizer: codes used": 0.9,
    "seen: top-5 against real pictures": 0.70,
    "combination: top-5 against real pictures": 0.35,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured number; `goal` is its least allowed value, None where there is none."""

    name: str
    value: float | None
    unit: str = ""
    goal: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the goal is met; True without one."""
        return self.goal is None or (self.value is not None and self.value >= self.goal)

    def as_dict(self, command: str) -> dict[str, Any]:
        """As `make bench` writes its figures, and a note."""
        line = {"name": self.name, "value": self.value, "unit": self.unit, "goal": self.goal, "pass": self.passed}
        return line | {"command": command, "note": self.note}


def figure(name: str, value: float | None, unit: str = "", note: str = "") -> Figure:
    """A figure with the goal of its name."""
    return Figure(name=name, value=value, unit=unit, goal=GOALS.get(name), note=note)


def judge_figures(scores: Scores, real: Mapping[str, Rates], note: str) -> list[Figure]:
    """Rates of each split, those of real pictures after a round trip through the tokenizer, and their ratios."""
    found = []
    for split in SPLITS:
        if split not in scores.splits:
            continue
        own, theirs = scores.splits[split], real[split]
        found += [
            figure(f"{split}: top-1", own.top1, "share", f"{own.count} captions"),
            figure(f"{split}: top-5", own.top5, "share"),
            figure(f"{split}: top-5 of real pictures after a round trip", theirs.top5, "share", note),
            figure(f"{split}: top-5 against real pictures", own.top5 / theirs.top5 if theirs.top5 else None, "ratio"),
        ]
    return found


def distance_figures(scores: Scores, kit_figures: Mapping[str, Any]) -> list[Figure]:
    """FD-EffLite0 on 64 axes and on all features; the note says what real pictures of the captions have."""
    real, decoded = kit_figures["fd_real"], kit_figures["fd_round_trip"]
    names = ("FD-EffLite0, 64 axes", "FD-EffLite0, all features")
    return [
        figure(name, value, "", f"real pictures of all captions {real[i]:.3g}, after a round trip {decoded[i]:.3g}")
        for i, (name, value) in enumerate(zip(names, (scores.fd, scores.fd_full), strict=True))
    ]


def table(figures: Sequence[Figure]) -> str:
    """Aligned columns for a terminal."""
    lines = [("figure", "value", "goal", "", "")]
    for one in figures:
        verdict = "" if one.goal is None else ("pass" if one.passed else "MISSED")
        goal = "" if one.goal is None else f">= {short(one.goal)}"
        lines.append((one.name, f"{short(one.value)} {one.unit}".strip(), goal, verdict, one.note))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join((*(cell.ljust(width) for cell, width in zip(line[:4], widths, strict=True)), line[4])).rstrip()
        for line in lines
    )


def markdown(figures: Sequence[Figure]) -> str:
    """The same as a table of a Markdown page."""
    rows = ["| figure | value | goal | met | |", "|---|---|---|---|---|"]
    for one in figures:
        met = "" if one.goal is None else ("yes" if one.passed else "no")
        goal = "" if one.goal is None else f">= {short(one.goal)}"
        rows.append(f"| {one.name} | {short(one.value)} {one.unit} | {goal} | {met} | {one.note} |")
    return "\n".join(rows) + "\n"
