"""docs/method.md section 6: oracles 1, 2, 3, 5, 6 and 7, on tiny random models."""

import functools

import pytest
import torch

from mulo_ray.decoding.autoregressive import AutoregressiveTarget, ZipARTarget
from mulo_ray.decoding.grid import count_islands, expand, from_first, islands
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.redraw import REDRAW_RULES
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.wavefront import zipar_forwards
from mulo_ray.models.rescaler import NearestResampler
from tests.support.tiny import request, teacher_forced, tiny

GUIDED = Sampling(guidance=3.0)
PLAIN = Sampling(guidance=1.0)


def plain(pair, sampling, req):
    return generate(AutoregressiveTarget(pair.scale("high"), sampling), None, req)


@functools.cache
def plain_tokens(sampling, batch, seed):
    """Plain decoding with the pair `tiny()`: what several tests compare with, made once."""
    return plain(tiny(), sampling, request(batch, seed)).tokens_BHW


@pytest.mark.parametrize(
    "sampling", [PLAIN, GUIDED, Sampling(temperature=0.0), Sampling(guidance=2.0, top_k=9, top_p=0.8, temperature=0.7)]
)
@pytest.mark.parametrize(("rows", "batch"), [(1, 3), (2, 5), (4, 1), (4, 5)])
def test_tau_above_one_with_raster_redraw_is_plain_decoding(rows, batch, sampling):
    """Oracle 1; reports A (threshold form of A1-A4): cell for cell, any batch, any seed, any d, guidance on and off."""
    pair, req = tiny(), request(batch, seed=batch)
    got = generate(pair.target(sampling, rows=rows, tau=1.01, redraw="raster"), pair.drafter(sampling, rows=rows), req)
    assert torch.equal(got.tokens_BHW, plain_tokens(sampling, batch, batch))
    assert all(image.accepted == 0 and image.rejected == 64 for image in got.stats)
    assert bool(got.rejected_BHW.all())


@pytest.mark.parametrize("sampling", [Sampling(guidance=2.0), Sampling(guidance=2.0, temperature=0.0)])
@pytest.mark.parametrize("model", range(4))
def test_tau_above_one_twenty_seeds(model, sampling):
    """docs/reports.md A: greedy and sampled, 20 seeds: five images of each of four random models."""
    pair, req = tiny(model), request(5, seed=model)
    got = generate(pair.target(sampling, tau=1.01, redraw="raster"), pair.drafter(sampling), req)
    assert torch.equal(got.tokens_BHW, plain(pair, sampling, req).tokens_BHW)


@pytest.mark.parametrize("rows", [2, 4])
def test_tau_zero_returns_the_lifted_draft(rows):
    """Oracle 2: U_r(draft), one verifying forward per cycle beside the prefill."""
    pair, req = tiny(), request(3)
    drafted = []
    drafter = pair.drafter(GUIDED, rows=rows)
    inner = drafter.draft
    drafter.draft = lambda slot, committed: drafted.append(inner(slot, committed)) or drafted[-1]
    got = generate(pair.target(GUIDED, rows=rows, tau=0.0, resampler=NearestResampler(2)), drafter, req)
    assert torch.equal(got.tokens_BHW, NearestResampler(2).up(torch.cat(drafted, 1)))
    assert all(
        image.forwards_target == 1 + 4 // rows and image.depth == 0 and image.rejected == 0 for image in got.stats
    )


def one_cycle(pair, **options):
    """The verdict of one whole-image cycle from the same state: (draft, tokens, stats)."""
    req = request(4)
    target, drafter = pair.target(GUIDED, **options), pair.drafter(GUIDED)
    target.begin(0, req)
    drafter.begin(0, req)
    draft = drafter.draft(0, None)
    lifted = target._resampler.up(draft)
    target.advance(0, draft)
    generation = target.finish(0)
    return lifted, generation.tokens_BHW, generation.stats


def test_accepted_share_never_rises_with_tau_nor_falls_with_k():
    """Oracle 3."""
    pair = tiny()
    by_tau = [sum(s.accepted for s in one_cycle(pair, tau=tau)[2]) for tau in (0, 0.01, 0.05, 0.1, 0.3, 0.5, 1, 1.01)]
    assert by_tau == sorted(by_tau, reverse=True)
    assert by_tau[0] == 4 * 64 > by_tau[2] > by_tau[-1] == 0
    by_k = [sum(s.accepted for s in one_cycle(pair, tau=0.1, k=k)[2]) for k in (1, 2, 4, 16, 64)]
    assert by_k == sorted(by_k)
    assert by_k[0] < by_k[-1] == 4 * 64, "k = V keeps everything at tau <= .999"


@pytest.mark.parametrize("redraw", ["islands", "serial", "raster"])
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_cells_outside_the_redrawn_set_keep_the_draft(redraw, radius, monkeypatch):
    """Oracle 3: nothing before the first rejected cell or outside R_X changes, something inside does."""
    pair, seen = tiny(), {}
    rule = REDRAW_RULES[redraw]

    def watched(rejected_BHW, *options):
        seen["rejected"], seen["redraw"] = rejected_BHW, rule(rejected_BHW, *options)
        return seen["redraw"]

    monkeypatch.setitem(REDRAW_RULES, redraw, watched)
    lifted, tokens, stats = one_cycle(pair, tau=0.02, redraw=redraw, radius=radius)
    rejected, redrawn = seen["rejected"], seen["redraw"].levels_BHW > 0
    assert 0 < int(rejected.sum()) < 4 * 64
    assert bool(redrawn[rejected].all()), "every rejected cell is drawn anew"
    expected = from_first(rejected) if redraw == "raster" else expand(rejected, radius)
    assert torch.equal(redrawn, expected)
    assert torch.equal(tokens[~redrawn], lifted[~redrawn])
    assert bool((tokens != lifted)[redrawn].any())
    assert [s.resampled for s in stats] == redrawn.flatten(1).sum(1).tolist()


def test_expansion_is_clipped_to_cells_from_the_first_rejected_on():
    rejected = torch.zeros(1, 6, 6, dtype=torch.bool)
    rejected[0, 2, 3] = rejected[0, 5, 0] = True
    grown = expand(rejected, 1)
    cells = {divmod(int(cell), 6) for cell in grown[0].flatten().nonzero()}
    assert cells == {(2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (4, 0), (4, 1), (5, 0), (5, 1)}, "never before t0 = (2, 3)"
    assert torch.equal(from_first(rejected)[0].flatten().nonzero()[0], torch.tensor([15]))


@pytest.mark.parametrize("positions", ["rope", "absolute"])
def test_cache_equals_one_built_from_scratch_after_each_cycle(positions):
    """Oracle 5; reports A5 (a drafter's cache that drifts): with refresh_cache, on both sides."""
    pair, req = tiny(positions=positions), request(3)
    target = pair.target(GUIDED, rows=1, tau=0.05, refresh_cache=True)
    drafter = pair.drafter(GUIDED, rows=1)
    target.begin(0, req)
    drafter.begin(0, req)
    committed = None
    for _ in range(4):
        draft = drafter.draft(0, committed)
        committed = target.advance(0, draft)
        if committed is None:
            break
        for role, which in ((target, "high"), (drafter, "low")):
            canvas = role._slots[0].canvas
            if which == "low":
                canvas.place_rows(role._slots[0].row - 1, committed)
            canvas.settle()
            fresh = type(canvas)(pair.scale(which), req, GUIDED)
            known = int(canvas.filled_BN[0].sum()) // canvas.scale.side
            fresh.place_rows(0, canvas.grid_BHW()[:, :known])
            fresh.settle()
            upto = 3 + known * canvas.scale.side
            for layer in range(2):
                a, b = canvas.cache.kv.keys_RSAD[layer][:, :upto], fresh.cache.kv.keys_RSAD[layer][:, :upto]
                torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
                a, b = canvas.cache.kv.values_RSAD[layer][:, :upto], fresh.cache.kv.values_RSAD[layer][:, :upto]
                torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


METHODS = ("ar", "zipar", "raster-4", "serial-1", "serial-4", "islands-1", "islands-4")


def method(name, pair, sampling):
    """(target, drafter) of a name of METHODS; a number is d, the drafter rows per cycle."""
    if name == "ar":
        return AutoregressiveTarget(pair.scale("high"), sampling), None
    if name == "zipar":
        return ZipARTarget(pair.scale("high"), sampling, 3), None
    redraw, rows = name.split("-")
    options = {"rows": int(rows), "tau": 0.05, "redraw": redraw, "refresh_cache": True}
    return pair.target(sampling, **options), pair.drafter(sampling, rows=int(rows))


@pytest.mark.parametrize("sampling", [PLAIN, GUIDED])
@pytest.mark.parametrize("name", METHODS)
def test_an_image_is_the_same_alone_and_in_any_batch_at_any_place(name, sampling):
    """Oracle 6; reports A6, B3: a row equals its own batch-of-one run, first, inside and last, for every decoder."""
    pair, all_of_them = tiny(), request(7)
    together = generate(*method(name, pair, sampling), all_of_them).tokens_BHW
    for i in (0, 4, 6):
        alone = generate(*method(name, pair, sampling), request(1, first=i)).tokens_BHW
        assert torch.equal(together[i : i + 1], alone)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    labels = all_of_them.condition["labels"][order]
    moved = Request(condition={"labels": labels}, seeds_B=all_of_them.seeds_B[order])
    assert torch.equal(generate(*method(name, pair, sampling), moved).tokens_BHW, together[order])
    assert len({tuple(image.flatten().tolist()) for image in together}) == 7, "images must differ"


def test_several_slots_in_flight_do_not_touch_each_other():
    """reports A10: a result depends on its arguments only, also with micro-batches interleaved on one role."""
    pair = tiny()
    expected = [
        generate(pair.target(GUIDED, rows=2), pair.drafter(GUIDED, rows=2), request(3, first=i * 3)) for i in range(2)
    ]
    target, drafter = pair.target(GUIDED, rows=2), pair.drafter(GUIDED, rows=2)
    for slot in (0, 1):
        target.begin(slot, request(3, first=slot * 3))
        drafter.begin(slot, request(3, first=slot * 3))
    drafts = [drafter.draft(slot, None) for slot in (0, 1)]
    committed = [target.advance(slot, drafts[slot]) for slot in (1, 0)][::-1]
    for slot in (0, 1):
        assert target.advance(slot, drafter.draft(slot, committed[slot])) is None
    for slot in (1, 0):
        assert torch.equal(target.finish(slot).tokens_BHW, expected[slot].tokens_BHW)


@pytest.mark.parametrize(
    ("height", "width", "window", "forwards"),
    [(32, 32, 16, 528), (32, 32, 8, 280), (32, 32, 5, 187), (64, 64, 16, 1072), (64, 64, 11, 757)],
)
def test_zipar_formula(height, width, window, forwards):
    """The check values of docs/method.md section 4."""
    assert zipar_forwards(height, width, window) == forwards


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8, 0])
def test_forward_counts_equal_the_cost_model(window):
    """Oracle 7: ZipAR's formula, plain decoding's N, and drafting + 1 per cycle + serial depth for MuLo-SD."""
    pair, req = tiny(), request(3)
    zipar = generate(ZipARTarget(pair.scale("high"), GUIDED, window), None, req)
    assert {image.forwards_target for image in zipar.stats} == {zipar_forwards(8, 8, window)}
    assert {image.forwards_target for image in plain(pair, GUIDED, req).stats} == {64}
    mulo = generate(pair.target(GUIDED, tau=0.05, window=window), pair.drafter(GUIDED, window=window), req)
    for image in mulo.stats:
        assert image.forwards_drafter == zipar_forwards(4, 4, window)
        assert image.forwards_target == 1 + image.cycles + image.depth
        assert image.query_positions >= 63 + 15


def test_zipar_with_a_window_of_a_row_is_plain_decoding():
    pair, req = tiny(), request(3)
    assert torch.equal(
        generate(ZipARTarget(pair.scale("high"), GUIDED, 8), None, req).tokens_BHW, plain(pair, GUIDED, req).tokens_BHW
    )


def test_zipar_sees_no_unfilled_slot_and_no_dead_surrogate():
    """The traps of docs/method.md section 4: every key comes from a true token, every logit from true context."""
    pair, req = tiny(), request(2)
    target = ZipARTarget(pair.scale("high"), GUIDED, 2)
    target.begin(0, req)
    target.advance(0, None)
    canvas = target._slots[0][0]
    assert not canvas.stale_BN[:, :-1].any(), "every surrogate was rewritten"
    tokens = canvas.tokens_BN
    # the first row is plain decoding: its logits must be those of teacher forcing
    logits = teacher_forced(pair.high, req.condition["labels"], tokens)
    uncond = teacher_forced(pair.high, torch.full_like(req.condition["labels"], 7), tokens)
    guided = uncond + 3 * (logits - uncond)
    from mulo_ray.decoding.sampling import sample

    for cell in range(8):
        expected = sample(guided[:, cell], GUIDED, req.seeds_B, 8, torch.full((2,), cell))
        assert torch.equal(expected, tokens[:, cell])


def test_islands_and_their_number_are_those_of_a_flood_fill():
    """8-connected, image by image, at any density."""
    for share in (0.0, 0.05, 0.2, 0.4, 0.7, 1.0):
        mask = torch.rand(4, 9, 9, generator=torch.Generator().manual_seed(int(100 * share))) < share
        labels = islands(mask)
        for image, own in zip(mask, labels, strict=True):
            left, found = {tuple(cell) for cell in image.nonzero().tolist()}, []
            while left:
                island, edge = set(), [left.pop()]
                while edge:
                    y, x = edge.pop()
                    island.add((y, x))
                    near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
                    left -= near
                    edge += near
                found.append(island)
            assert {frozenset(map(tuple, (own == n).nonzero().tolist())) for n in own.unique().tolist() if n} == set(
                map(frozenset, found)
            )
            assert count_islands(own[None]).tolist() == [len(found)]
