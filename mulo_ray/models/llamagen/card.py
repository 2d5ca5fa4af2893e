"""The card of a LlamaGen family. Knows no torch."""

from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.llamagen.config import CONFIGS, READERS
from mulo_ray.models.official_card import official_card

NAMES = tuple(CONFIGS)


def read_card(name: str, weights: str | None) -> FamilyCard:
    """The card of `llamagen-...`; see `models.official_card.official_card`."""
    return official_card(
        name,
        weights,
        CONFIGS[name],
        READERS,
        loader="mulo_ray.models.llamagen.family:LlamaGenFamily",
        checker="mulo_ray.models.llamagen.check:check_files",
    )
