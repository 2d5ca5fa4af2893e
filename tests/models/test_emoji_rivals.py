"""Oracle 4 of docs/method.md section 6 on the weights inside the package: `exact` and `eagle2` are `ar`, byte for byte.

Exactness must not depend on a head's quality, so the heads here are untrained.
"""

import dataclasses

import pytest
import torch

from mulo_ray.config import DecoderOptions
from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.exact import ExactOptions, ExactTarget
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.mulo import MuloDrafter
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.speculative import SpeculativeTarget
from mulo_ray.decoding.tree_drafts import TreeOptions
from mulo_ray.decoding.tree_walk import Relaxation
from mulo_ray.decoding.trees import TreeTarget
from mulo_ray.decoding.verification import neighbour_table
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.catalog import read_card
from mulo_ray.models.eagle import EagleDraftHead, EagleHead
from mulo_ray.models.family import load_family
from mulo_ray.models.roles import RoleSpec, _scale, check_grids
from mulo_ray.seeding import image_seed

CAPTIONS = ("a red apple", "flag of Japan", "a cat looking at a slice of pizza")
SAMPLING = Sampling(guidance=1.5, temperature=0.5)


@pytest.fixture(scope="module")
def family():
    return load_family(read_card("emoji"), "cpu")


def asked(family, captions=CAPTIONS):
    used = [family.prompt_used(text) for text in captions]
    return Request(
        condition=family.condition(used), seeds_B=torch.tensor([image_seed(0, text, 0) for text in captions])
    )


def made(family, name, captions=CAPTIONS):
    """One decoder at 64 px, drafted from 32 px where it drafts from a scale."""
    high = family.scale(64, batch_invariant=True)
    drafter = None
    if name == "ar":
        target = AutoregressiveTarget(high, SAMPLING)
    elif name == "exact":
        options = ExactOptions(rows_per_cycle=4, verify_window=16)
        target = ExactTarget(high, SAMPLING, family.resampler("pixel", 2), options)
        drafter = MuloDrafter(family.scale(32, batch_invariant=True), SAMPLING, rows_per_cycle=4, window=2)
    elif name == "speculative":
        target = SpeculativeTarget(high, family.scale(32, batch_invariant=True, side=8), SAMPLING, chain=3)
    else:
        torch.manual_seed(0)
        head = EagleDraftHead(EagleHead(high.body.config).requires_grad_(False), high.body)
        table = neighbour_table(family.codebook_VD, 64)
        relaxation = Relaxation(neighbours_VK=table, delta=0.4) if name == "lantern" else None
        target = TreeTarget(high, head, SAMPLING, TreeOptions(depth=3, top_k=4, nodes=12), relaxation)
    return generate(target, drafter, asked(family, captions))


@pytest.mark.parametrize("name", ["exact", "eagle2"])
def test_exact_decoders_are_plain_decoding(family, name):
    """Oracle 4, with `lantern` for the rule that must be told apart; fewer forwards than cells."""
    plain, got = made(family, "ar"), made(family, name)
    assert torch.equal(got.tokens_BHW, plain.tokens_BHW)
    assert all(image.forwards_target < 64 for image in got.stats)


def test_relaxed_trees_are_told_apart(family):
    assert not torch.equal(made(family, "lantern").tokens_BHW, made(family, "ar").tokens_BHW)


@pytest.mark.parametrize("name", ["exact", "eagle2", "lantern", "speculative"])
def test_an_image_does_not_know_its_batch(family, name):
    """Oracle 6; docs/reports.md A6, A10: tokens and costs alone and in company."""
    together = made(family, name)
    for i in (0, 2):
        alone = made(family, name, CAPTIONS[i : i + 1])
        assert torch.equal(alone.tokens_BHW[0], together.tokens_BHW[i])
        for cost in ("forwards_target", "query_positions", "accepted"):
            assert getattr(alone.stats[0], cost) == getattr(together.stats[i], cost)


def test_models_of_other_codebooks_are_refused(family):
    """reports A7: equal integers that mean other things; both sizes are named."""

    class Other:
        codebook_VD = family.codebook_VD[:32]
        scale = staticmethod(family.scale)

    spec = RoleSpec(
        family="emoji", weights=None, drafter_px=32, target_px=64, sampling=None, decoding=DecoderOptions(),
        batch_invariant=True, device="cpu",
    )  # fmt: skip
    with pytest.raises(CheckpointError, match="draws from 2048 codes, its tokenizer has 32"):
        _scale(spec, Other(), 64)
    low, high = family.scale(32, batch_invariant=True, side=8), family.scale(64, batch_invariant=True)
    low.codebook_size = 512
    with pytest.raises(CheckpointError, match="512 codes and the target's 2048"):
        SpeculativeTarget(high, low, SAMPLING, chain=2)
    assert dataclasses.replace(spec, target_px=32).ratio == 1


def test_a_grid_that_is_no_picture_is_a_failed_row():
    """reports A8: 63 of 64 cells, a code beyond the codebook: a PromptError with the numbers, never padded."""
    with pytest.raises(PromptError, match="expected 64 tokens, got 63"):
        check_grids(torch.zeros(1, 1, 63, dtype=torch.int64), 8, 16)
    with pytest.raises(PromptError, match="expected tokens from 0 to 15, got 16"):
        check_grids(torch.full((1, 8, 8), 16), 8, 16)
    check_grids(torch.full((2, 8, 8), 15), 8, 16)
