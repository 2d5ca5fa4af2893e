"""The stub roles as an engine of `mulo_ray.job.run`: any text, no weights, no torch."""

import functools
from pathlib import Path
from typing import Any

import stub_roles

from mulo_ray.config import JobConfig
from mulo_ray.engine import Engine
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.workers.roles import Roles

CARD = FamilyCard(
    name="stub",
    folder=Path("."),
    scales={32: 4, 64: 8, 128: 16},
    default_pair=(32, 64),
    defaults={
        "guidance": 2.0,
        "tau": 0.1,
        "neighbours": 8,
        "radius": 1,
        "redraw": "raster",
        "rows_per_cycle": 2,
        "zipar_window": 4,
        "upsampler": "nearest",
        "refresh_cache": False,
    },
    weights_fingerprint="0" * 16,
    role_bytes=100 * 2**20,
)


def _roles(config: JobConfig, *, sleep_s: float) -> Roles:
    make: Any = functools.partial(stub_roles.make_target, sleep_s=sleep_s)
    return Roles(target=make, drafter=stub_roles.make_drafter if config.decoding.decoder == "mulo" else None)


def stub_engine(sleep_s: float = 0.0) -> Engine:
    return Engine(card=CARD, roles=functools.partial(_roles, sleep_s=sleep_s))
