"""Draft trees (docs/method.md section 5): oracles 4 to 7 for `eagle2` and `lantern`, with heads good and bad."""

import functools

import pytest
import torch

from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.tree_drafts import Grower, TreeOptions
from mulo_ray.decoding.tree_walk import Relaxation
from mulo_ray.decoding.trees import TreeTarget
from mulo_ray.decoding.verification import neighbour_table
from mulo_ray.models.eagle import EagleDraftHead, EagleHead
from tests.support.table import ScriptedHead, constant, random_table, table_request
from tests.support.tiny import request, tiny

GUIDED = Sampling(guidance=3.0)
SHAPES = (
    TreeOptions(depth=4, top_k=5, nodes=20),
    TreeOptions(depth=3, top_k=3, nodes=9, static=True),
    TreeOptions(depth=1, top_k=64, nodes=70),
)


def trees(pair, sampling, options=SHAPES[0], relaxation=None):
    """An untrained head beside a model: it guesses that the hidden state stays, and its layer adds noise."""
    torch.manual_seed(4)
    head = EagleHead(pair.high.body.config).requires_grad_(False)
    torch.nn.init.normal_(head.block.feed_forward.w2.weight, std=0.1)
    torch.nn.init.normal_(head.block.attention.wo.weight, std=0.3)
    scale = pair.scale("high")
    return TreeTarget(scale, EagleDraftHead(head, pair.high.body), sampling, options, relaxation)


@functools.cache
def plain_tokens(sampling, batch, seed):
    return generate(AutoregressiveTarget(tiny().scale("high"), sampling), None, request(batch, seed)).tokens_BHW


@pytest.mark.parametrize(
    "sampling", [Sampling(), GUIDED, Sampling(temperature=0.0), Sampling(guidance=2.0, top_k=9, top_p=0.8)]
)
@pytest.mark.parametrize("options", SHAPES, ids=["dynamic", "static", "flat"])
def test_tokens_are_those_of_plain_decoding(sampling, options):
    """Oracle 4; docs/reports.md A1, A3, A6: any head, shape and sampling, images at their own pace."""
    pair, req = tiny(), request(5, seed=2)
    got = generate(trees(pair, sampling, options), None, req)
    assert torch.equal(got.tokens_BHW, plain_tokens(sampling, 5, 2))
    assert sum(image.accepted for image in got.stats) > 0, "some nodes were right"
    for image, left_HW in zip(got.stats, got.rejected_BHW, strict=True):
        assert image.accepted + int(left_HW.sum()) == 63, "every cell after the first was in a tree, or ended a walk"
        assert image.forwards_target == 1 + image.cycles
        assert 63 - image.accepted <= image.cycles <= 65 - image.accepted, "oracle 7; a near tie costs a forward"


def test_taking_a_neighbour_for_the_token_is_caught():
    """Oracle 4's wrong rule is LANTERN's, and LANTERN without mass is right again (delta 0, or lambda 1)."""
    pair, req = tiny(), request(5, seed=2)
    table = neighbour_table(pair.vq.codebook, 16)
    loose, none, one = (
        generate(trees(pair, GUIDED, SHAPES[2], Relaxation(neighbours_VK=table, **bound)), None, req)
        for bound in ({"delta": 0.5}, {"delta": 0.0}, {"delta": 0.0, "factor": 1.0})
    )
    assert torch.equal(none.tokens_BHW, plain_tokens(GUIDED, 5, 2))
    assert torch.equal(one.tokens_BHW, plain_tokens(GUIDED, 5, 2))
    assert not torch.equal(loose.tokens_BHW, plain_tokens(GUIDED, 5, 2))
    assert sum(i.accepted for i in loose.stats) > sum(i.accepted for i in none.stats)


def test_a_head_that_answers_for_the_target_is_caught(monkeypatch):
    """reports A4: taking the best child unseen, with the head's certainty for the target's."""
    pair, req = tiny(), request(3, seed=2)
    monkeypatch.setattr("mulo_ray.decoding.tree_walk.Relaxation.near", lambda self, logp, candidates, drawn: drawn >= 0)
    wrong = Relaxation(neighbours_VK=neighbour_table(pair.vq.codebook, 1), delta=0.0)
    got = generate(trees(pair, GUIDED, SHAPES[0], wrong), None, req)
    assert not torch.equal(got.tokens_BHW, plain_tokens(GUIDED, 5, 2)[:3])


def test_neighbours_count_nearest_first_while_their_mass_stays_within():
    """LANTERN's bound counts neighbours only, LANTERN++'s is a multiple of the code's own mass."""
    p = torch.tensor([0.1, 0.2, 0.15, 0.05, 0.5]).log()
    table = torch.tensor([[0, 1, 2, 3, 4]] * 5)

    def counted(**bound):
        rule = Relaxation(neighbours_VK=table, **bound)
        return [int(t) for t in range(5) if rule.near(p[None], torch.tensor([0]), torch.tensor([t]))]

    assert counted(delta=0.0) == [0]
    assert counted(delta=0.36) == [0, 1, 2]
    assert counted(delta=0.41) == [0, 1, 2, 3]
    assert counted(delta=1.0) == [0, 1, 2, 3, 4]
    assert counted(delta=0.0, factor=1.5) == [0]
    assert counted(delta=0.0, factor=4.51) == [0, 1, 2]


def test_rows_that_accept_nothing_two_and_five_equal_their_own_runs():
    """reports A6: a row that is always wrong, one right twice in three cells, one always right; and their costs."""
    target, req = random_table(3), table_request(3)
    truth = generate(AutoregressiveTarget(target, GUIDED), None, req).tokens_BHW.flatten(1)
    guesses = truth.clone()
    guesses[0] = (truth[0] + 1) % 16
    guesses[1, ::3] = (truth[1, ::3] + 1) % 16
    chain = TreeOptions(depth=5, top_k=1, nodes=5)
    together = generate(TreeTarget(target, ScriptedHead(guesses, 16), GUIDED, chain), None, req)
    assert torch.equal(together.tokens_BHW.flatten(1), truth)
    # cell 0 by the prefill; one a forward; three a forward; six a forward
    assert [image.forwards_target for image in together.stats] == [1 + 63, 1 + 21, 1 + 11]
    for i in range(3):
        alone = generate(
            TreeTarget(target, ScriptedHead(guesses[i : i + 1], 16), GUIDED, chain), None, table_request(1, first=i)
        )
        assert torch.equal(alone.tokens_BHW[0], together.tokens_BHW[i])
        assert alone.stats[0].forwards_target == together.stats[i].forwards_target
        assert alone.stats[0].query_positions == together.stats[i].query_positions


def test_an_image_is_the_same_alone_and_in_any_batch_at_any_place():
    """Oracle 6; reports A6, A10: tokens and costs, also on a target that served others before."""
    pair, req = tiny(), request(5)
    relaxed = Relaxation(neighbours_VK=neighbour_table(pair.vq.codebook, 8), delta=0.3)
    for target in (trees(pair, GUIDED), trees(pair, GUIDED, SHAPES[1], relaxed)):
        together = generate(target, None, req)
        alone = generate(target, None, request(1, first=3))
        assert torch.equal(alone.tokens_BHW[0], together.tokens_BHW[3])
        assert alone.stats[0].query_positions == together.stats[3].query_positions
        order = torch.tensor([3, 0, 4, 1, 2])
        moved = Request(condition={"labels": req.condition["labels"][order]}, seeds_B=req.seeds_B[order])
        assert torch.equal(generate(target, None, moved).tokens_BHW, together.tokens_BHW[order])


def test_branches_leave_nothing_in_the_cache():
    """Oracle 5: the cache is that of plain decoding, bit for bit."""
    pair, req = tiny(), request(3)
    target = trees(pair, GUIDED)
    target.begin(0, req)
    target.advance(0, None)
    canvas = target._slots[0].canvas
    canvas.settle()
    fresh = type(canvas)(pair.scale("high"), req, GUIDED)
    fresh.place_rows(0, canvas.grid_BHW())
    fresh.settle()
    for layer in range(2):
        assert torch.equal(canvas.cache.kv.keys_RSAD[layer], fresh.cache.kv.keys_RSAD[layer])
        assert torch.equal(canvas.cache.kv.values_RSAD[layer], fresh.cache.kv.values_RSAD[layer])


def grown(options, batch=2, next_cell=5):
    logits = torch.randn(batch, 16, generator=torch.Generator().manual_seed(1)) * 2
    guesses = torch.randint(0, 16, (batch, 64), generator=torch.Generator().manual_seed(2))
    grower = Grower(ScriptedHead(guesses, 16), Sampling(), options, batch, 64)
    rows = torch.arange(batch)
    return grower.grow(rows, torch.full((batch,), next_cell), logits, torch.zeros(1, batch, 1))


@pytest.mark.parametrize("static", [False, True])
def test_a_tree_holds_its_nodes_parents(static):
    """Parents before children and one level above; no token twice under one parent; as many nodes as asked for."""
    tree = grown(TreeOptions(depth=4, top_k=4, nodes=15, static=static))
    assert tree.valid_BT.sum(1).tolist() == [15, 15]
    for b in range(2):
        kin = set()
        for t in range(15):
            parent = int(tree.parents_BT[b, t])
            assert -1 <= parent < t
            assert int(tree.depths_BT[b, t]) == (int(tree.depths_BT[b, parent]) if parent >= 0 else 0) + 1
            kin.add((parent, int(tree.tokens_BT[b, t])))
            path, up = {t}, parent
            while up >= 0:
                path.add(up)
                up = int(tree.parents_BT[b, up])
            assert set(tree.ancestors_BTT()[b, t].nonzero().flatten().tolist()) == path
        assert len(kin) == 15
    if static:
        assert torch.equal(tree.parents_BT[0], tree.parents_BT[1]), "one shape for all"


def test_a_tree_ends_before_the_last_cell():
    """No node where nothing follows, and never more branches than slots to borrow."""
    options = TreeOptions(depth=4, top_k=4, nodes=15)
    assert not bool(grown(options, next_cell=63).valid_BT.any())
    near_end = grown(options, next_cell=61)
    assert near_end.valid_BT.sum(1).tolist() == [3, 3]
    assert int(near_end.depths_BT[near_end.valid_BT].max()) <= 2


def test_temperature_is_honoured_and_samples_differ():
    """reports A9, B4: three equal codes at temperature 1 all appear; 16 samples of 256 equal codes are 16 grids."""
    even = constant([1 / 3] * 3)
    head = ScriptedHead(torch.zeros(20, 16, dtype=torch.int64), 3)
    shape = TreeOptions(depth=2, top_k=2, nodes=4)
    tokens = generate(TreeTarget(even, head, Sampling(), shape), None, table_request(20, 1)).tokens_BHW
    assert set(tokens.flatten().tolist()) == {0, 1, 2}
    many = constant([1 / 256] * 256)
    head = ScriptedHead(torch.zeros(16, 16, dtype=torch.int64), 256)
    grids = generate(TreeTarget(many, head, Sampling(), shape), None, table_request(16, 1)).tokens_BHW
    assert len(set(grids[:, 0, 0].tolist())) > 1, "false alarm (1/256)^15"
    assert len({tuple(grid.flatten().tolist()) for grid in grids}) == 16
