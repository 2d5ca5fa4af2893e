"""What is never trained on: whole concepts, and concepts in one style that is seen in the others.

The lists are files beside this module, drawn once by a seed, so that every retraining leaves out the same pictures.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mulo_ray.training.emoji_sources import Icon

CONCEPTS = Path(__file__).parent / "held_out_concepts.txt"
COMBINATIONS = Path(__file__).parent / "held_out_combinations.txt"
TRAIN, CONCEPT, COMBINATION = "train", "concept", "combination"


def split_of(icon: Icon, concepts: frozenset[str], combinations: frozenset[str]) -> str:
    """`train`, or which of the two held-out splits a picture belongs to."""
    if icon.concept.name in concepts:
        return CONCEPT
    return COMBINATION if f"{icon.style} {icon.concept.name}" in combinations else TRAIN


def read_splits() -> tuple[frozenset[str], frozenset[str]]:
    """Names of held-out concepts, and "style name" of held-out combinations."""
    return _lines(CONCEPTS), _lines(COMBINATIONS)


def choose(
    icons: Sequence[Icon], *, concepts: int = 60, combinations: int = 150, seed: int = 2026
) -> tuple[list[str], list[str]]:
    """Draw both lists among concepts that every style has; how the files were made."""
    styles = defaultdict(set)
    for icon in icons:
        styles[icon.concept.name].add(icon.style)
    most = max(len(found) for found in styles.values())
    everywhere = sorted(name for name, found in styles.items() if len(found) == most)
    drawn = random.Random(seed).sample(everywhere, concepts + combinations)
    order = sorted({icon.style for icon in icons})
    pairs = (f"{order[i % len(order)]} {name}" for i, name in enumerate(drawn[concepts:]))
    return sorted(drawn[:concepts]), sorted(pairs)


def _lines(path: Path) -> frozenset[str]:
    return frozenset(path.read_text(encoding="utf-8").splitlines())
