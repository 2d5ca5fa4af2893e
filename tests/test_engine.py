"""The embedded family through its engine: bytes of a picture in batches of 1, 3 and 8."""

from collections.abc import Callable, Sequence

import pytest

from mulo_ray.config import JobConfig, ModelOptions, RunOptions
from mulo_ray.engine import family_engine
from mulo_ray.prompts import embedded_captions
from mulo_ray.resolve import resolve
from mulo_ray.seeding import image_seed

Make = Callable[[Sequence[str], Sequence[int]], list[bytes]]


@pytest.fixture(scope="module")
def make() -> Make:
    """(texts, seeds) -> PNG bytes, by the 32 -> 64 px pair of the package in this process."""
    import torch

    from mulo_ray.decoding.interfaces import generate

    torch.set_num_threads(1)
    config = JobConfig(model=ModelOptions(drafter_px=32, target_px=64), run=RunOptions(device="cpu"))
    engine = family_engine(config.model)
    roles = engine.roles(resolve(config, engine.card))
    assert roles.drafter is not None
    target, drafter = roles.target("cpu"), roles.drafter("cpu")

    def pngs(texts: Sequence[str], seeds: Sequence[int]) -> list[bytes]:
        request = target.request([target.prompt_used(text) for text in texts], list(seeds))
        return target.render(generate(target.decoder, drafter.decoder, request).tokens_BHW, texts)

    return pngs


def test_a_picture_is_the_same_in_batches_of_one_three_and_eight(make: Make) -> None:
    """docs/reports.md B3, A6: trained weights, cut as jobs cut them, the last batch of three with two rows only."""
    prompts = embedded_captions(8)
    texts = [prompt.text for prompt in prompts]
    seeds = [image_seed(0, prompt.key, 0) for prompt in prompts]
    together = make(texts, seeds)
    assert len(set(together)) == 8
    threes = [make(texts[i : i + 3], seeds[i : i + 3]) for i in range(0, 8, 3)]
    assert [png for batch in threes for png in batch] == together
    for alone in (0, 4, 7):
        assert make(texts[alone : alone + 1], seeds[alone : alone + 1]) == together[alone : alone + 1]
    assert make(texts[::-1], seeds[::-1]) == together[::-1]
