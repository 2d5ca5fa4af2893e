"""One picture in this process, for every value of every option that decides pixels."""

import dataclasses
import typing

import pytest

from mulo_ray.config import DecoderOptions, JobConfig, ModelOptions, RunOptions, SamplingOptions
from mulo_ray.engine import family_engine
from mulo_ray.errors import UsageError
from mulo_ray.resolve import DECODER_FIELDS, USED_BY
from mulo_ray.single import generate_one

PROMPTS = ("a red apple", "a cat on a bicycle")
PAIR = ModelOptions(drafter_px=32, target_px=64)
CHOICES: dict[str, tuple[object, ...]] = {
    "decoder": ("ar", "zipar", "mulo", "exact", "speculative", "eagle2", "lantern"),
    "redraw": ("raster", "serial", "islands"),
    "upsampler": ("pixel", "nearest", "latent"),
    "rows_per_cycle": (0, 1, 2),
    "refresh_cache": (False, True),
    "zipar_window": (0, 2),
    "tau": (0.0, 0.2, 1.01),
    "neighbours": (1, 16),
    "radius": (0, 2),
    "verify_window": (0, 4),
    "chain": (1, 3),
    "tree": ("dynamic", "static"),
    "tree_depth": (2,),
    "tree_top_k": (2,),
    "tree_nodes": (4,),
    "lantern_k": (8,),
    "lantern_delta": (0.2,),
    "lantern_lambda": (2.0,),
}
OWNERS = {"verify_window": "exact", "chain": "speculative"}
OWNERS |= dict.fromkeys(("tree", "tree_depth", "tree_top_k", "tree_nodes"), "eagle2")
OWNERS |= dict.fromkeys(("lantern_k", "lantern_delta", "lantern_lambda"), "lantern")
WITH_DRAFTER = {"mulo", "exact", "speculative"}
SAMPLING: dict[str, tuple[object, ...]] = {
    "guidance": (1.0, 3.0),
    "temperature": (0.0, 0.8),
    "top_k": (0, 20),
    "top_p": (0.8, 1.0),
    "seed": (0, 7),
}
VALUES = [(name, value) for table in (CHOICES, SAMPLING) for name, values in table.items() for value in values]


def config(name: str, value: object, **decoding: object) -> JobConfig:
    decoder = {"decoder": OWNERS.get(name, "mulo")} | decoding | ({name: value} if name in CHOICES else {})
    return JobConfig(
        model=PAIR if decoder["decoder"] in WITH_DRAFTER else ModelOptions(target_px=64),
        sampling=SamplingOptions(**({name: value} if name in SAMPLING else {})),  # type: ignore[arg-type]
        decoding=DecoderOptions(**decoder),  # type: ignore[arg-type]
        run=RunOptions(device="cpu", batch_invariant=bool(value) if name == "batch_invariant" else True),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [*VALUES, ("batch_invariant", False)])
def test_every_value_makes_pictures(name: str, value: object) -> None:
    """docs/reports.md D9: an option nobody ever ran. Two prompts, two different pictures."""
    engine = family_engine(PAIR)
    made = [generate_one(text, config(name, value), engine=engine) for text in PROMPTS]
    assert all(png.startswith(b"\x89PNG") for png in made)
    assert made[0] != made[1]


@pytest.mark.slow
@pytest.mark.parametrize("window", [0, 2])
def test_zipar_takes_its_window(window: int) -> None:
    """reports D9; a window of 0 is plain raster order, so the bytes are those of ar."""
    engine = family_engine(PAIR)
    plain = generate_one(PROMPTS[0], config("decoder", "ar"), engine=engine)
    made = generate_one(PROMPTS[0], config("zipar_window", window, decoder="zipar"), engine=engine)
    assert (made == plain) == (window == 0)


def test_no_option_is_left_out() -> None:
    """A new option or choice is run above, or this fails."""
    assert set(CHOICES) == {field.name for field in dataclasses.fields(DecoderOptions)} == {"decoder", *DECODER_FIELDS}
    assert set(SAMPLING) == {field.name for field in dataclasses.fields(SamplingOptions)}
    assert set(CHOICES["decoder"]) == set(USED_BY)
    for name, hint in typing.get_type_hints(DecoderOptions).items():
        literals = [part for part in (hint, *typing.get_args(hint)) if typing.get_origin(part) is typing.Literal]
        for literal in literals:
            assert set(CHOICES[name]) == set(typing.get_args(literal)), name


@pytest.mark.parametrize(("name", "value"), [("tau", -1.0), ("rows_per_cycle", 3), ("zipar_window", 9)])
def test_a_value_that_cannot_work_is_refused_before_weights_are_loaded(name: str, value: object) -> None:
    with pytest.raises(UsageError, match="--" + name.replace("_", "-")):
        generate_one(PROMPTS[0], config(name, value))
