"""Options meet the family: defaults are filled, impossible combinations are sentences."""

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "workers"))
from stub_engine import CARD

from mulo_ray.config import DecoderOptions, JobConfig, ModelOptions, RunOptions, SamplingOptions
from mulo_ray.errors import UsageError
from mulo_ray.resolve import resolve


def job(model: ModelOptions | None = None, **decoding: object) -> JobConfig:
    return JobConfig(model=model or ModelOptions(), decoding=DecoderOptions(**decoding))  # type: ignore[arg-type]


def test_what_is_open_is_filled_and_what_is_set_stays() -> None:
    resolved = resolve(job(tau=0.5), CARD)
    assert (resolved.model.drafter_px, resolved.model.target_px) == (32, 64)
    assert (resolved.decoding.tau, resolved.decoding.radius, resolved.sampling.guidance) == (0.5, 1, 2.0)
    assert resolve(resolved, CARD) == resolved


def test_sampling_left_open_is_the_familys_else_the_models_own_distribution() -> None:
    assert resolve(job(), CARD).sampling == SamplingOptions(guidance=2.0, temperature=1.0, top_k=0, top_p=1.0)
    card = dataclasses.replace(CARD, defaults={**CARD.defaults, "temperature": 0.5, "top_k": 100})
    assert resolve(job(), card).sampling == SamplingOptions(guidance=2.0, temperature=0.5, top_k=100, top_p=1.0)
    greedy = dataclasses.replace(job(), sampling=SamplingOptions(temperature=0.0, top_k=0))
    assert resolve(greedy, card).sampling == SamplingOptions(guidance=2.0, temperature=0.0, top_k=0, top_p=1.0)


def test_a_target_alone_has_no_drafter_and_no_draft_options() -> None:
    """Options that do nothing must not make another run of the same pictures."""
    resolved = resolve(job(decoder="ar"), CARD)
    assert resolved.model.drafter_px is None
    assert resolved.decoding.tau is None
    assert resolve(job(decoder="zipar"), CARD).decoding.zipar_window == 4
    assert resolve(job(ModelOptions(target_px=32), decoder="ar"), CARD).model.target_px == 32


def test_rivals_get_what_they_use_and_nothing_else() -> None:
    card = dataclasses.replace(CARD, heads={64: "head-64.safetensors"})
    chain = resolve(job(decoder="speculative"), card)
    assert (chain.model.drafter_px, chain.decoding.chain, chain.decoding.tau) == (32, 4, None)
    same = resolve(job(ModelOptions(drafter_px=64), decoder="speculative"), card)
    assert same.model.drafter_px == 64, "any scale may draft on the target's grid, the target's own too"
    exact = resolve(job(decoder="exact"), card)
    assert (exact.model.drafter_px, exact.decoding.verify_window, exact.decoding.redraw) == (32, 16, None)
    loose = resolve(job(decoder="lantern"), card).decoding
    assert (loose.tree, loose.lantern_delta, loose.lantern_lambda, loose.tree_nodes) == ("dynamic", 0.4, None, 60)
    plus = resolve(job(decoder="lantern", lantern_lambda=2.0), card)
    assert (plus.decoding.tree, plus.decoding.lantern_delta) == ("static", None)
    assert resolve(plus, card) == plus
    assert resolve(job(decoder="eagle2", tree="static"), card).decoding.tree == "static"


def test_a_target_named_alone_gets_a_drafter_that_fits() -> None:
    assert resolve(job(ModelOptions(target_px=128)), CARD).model.drafter_px == 32


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (job(ModelOptions(target_px=48)), "--target-px must be one of 32, 64, 128 for family stub, got 48"),
        (job(ModelOptions(drafter_px=48)), "--drafter-px must be one of 32, 64, 128"),
        (job(ModelOptions(drafter_px=64, target_px=64)), "whole multiple, 2 or more"),
        (job(ModelOptions(drafter_px=128, target_px=64)), "whole multiple, 2 or more"),
        (job(ModelOptions(target_px=32)), "use --decoder ar"),
        (job(rows_per_cycle=3), r"must divide the drafter's 4 rows \(1, 2, 4\) or be 0"),
        (job(zipar_window=9), "at most the target's 8 cells per row, got 9"),
        (job(radius=9), "at most the target's 8 cells per row, got 9"),
        (job(decoder="eagle2"), "needs an EAGLE head, and family stub ships none for 64 px"),
        (job(decoder="exact", tau=0.1), "--tau has no effect on --decoder exact"),
        (job(chain=3), "--chain has no effect on --decoder mulo"),
        (job(ModelOptions(drafter_px=48), decoder="speculative"), "--drafter-px must be one of 32, 64, 128"),
        (job(decoder="ar", tau=0.1), "--tau has no effect on --decoder ar"),
        (job(ModelOptions(drafter_px=32), decoder="zipar"), "--drafter-px has no effect on --decoder zipar"),
    ],
)
def test_what_cannot_work_is_refused(config: JobConfig, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        resolve(config, CARD)


def test_the_shape_of_a_group_is_no_part_of_a_picture_but_threads_are() -> None:
    plain = JobConfig().pixel_fields()
    assert JobConfig(run=RunOptions(group="1:3", span_nodes=True, in_flight=1)).pixel_fields() == plain
    assert JobConfig(run=RunOptions(threads=2)).pixel_fields() == plain | {"threads": 2}


def test_a_shape_with_a_drafter_needs_a_decoder_with_one() -> None:
    with pytest.raises(UsageError, match=r"--group shared needs a drafter .* --decoder ar has not; leave it out"):
        resolve(dataclasses.replace(job(decoder="ar"), run=RunOptions(group="shared")), CARD)
    assert resolve(dataclasses.replace(job(decoder="ar"), run=RunOptions(group="auto")), CARD).run.group == "auto"
    with pytest.raises(UsageError, match=r"--threads must be 1 or more, got 0"):
        RunOptions(threads=0)
