"""The card of a Tar family. Knows no torch."""

from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.official_card import official_card
from mulo_ray.models.tar.config import CONFIGS, READERS

NAMES = tuple(CONFIGS)


def read_card(name: str, weights: str | None) -> FamilyCard:
    """The card of `tar-...`; see `models.official_card.official_card`."""
    return official_card(
        name,
        weights,
        CONFIGS[name],
        READERS,
        loader="mulo_ray.models.tar.family:TarFamily",
        checker="mulo_ray.models.tar.check:check_files",
        fixed_grids=True,
    )
