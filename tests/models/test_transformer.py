"""The body against LlamaGen's primitives (seeded outputs of the official code), and against itself by cache."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mulo_ray.decoding.interfaces import Queries
from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.transformer import TransformerConfig, rotary_table, rotate
from tests.support.tiny import TinyModel, request, teacher_forced, tiny

REFERENCE = load_file(Path(__file__).parent / "reference" / "primitives_ref.safetensors")


@pytest.mark.parametrize(
    ("side", "head_dim", "prefix", "rows"),
    [
        (16, 64, 1, [0, 0, 1, 2, 17, 132, 256]),
        (24, 100, 1, [0, 0, 1, 2, 25, 292, 576]),
        (32, 64, 120, [0, 119, 120, 121, 152, 635, 1143]),
        (4, 16, 1, [0, 0, 1, 2, 5, 12, 16]),
    ],
)
def test_rotary_table_is_llamagens(side, head_dim, prefix, rows):
    """Condition rows are zero; cell (y, x) turns half its pairs by y and half by x."""
    config = TransformerConfig(dim=2 * head_dim, layers=1, heads=2, vocab=4, side=side, prefix=prefix)
    expected = REFERENCE[f"rope_g{side}_h{head_dim}_c{prefix}_rows"]
    torch.testing.assert_close(rotary_table(config)[rows], expected, atol=1e-5, rtol=1e-5)


def test_rotation_is_llamagens():
    config = TransformerConfig(dim=48, layers=1, heads=3, vocab=4, side=4, prefix=1)
    out = rotate(REFERENCE["rotary_in"], rotary_table(config))
    torch.testing.assert_close(out, REFERENCE["rotary_out_g4_h16_c1"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("k", "p", "t"), [(0, 0.7, 1), (0, 1, 1), (1000, 0.5, 1.3), (40, 0.9, 0.8), (5, 1, 1)])
def test_filters_are_llamagens(k, p, t):
    got = log_probabilities(REFERENCE["filter_logits"], Sampling(top_k=k, top_p=p, temperature=t)).exp()
    torch.testing.assert_close(got, REFERENCE[f"filter_k{k}_p{p}_t{t}_probs"], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", ["rope", "absolute"])
@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_cached_forwards_in_any_order_equal_teacher_forcing(positions, guidance):
    """Slots written out of order, twice, and by several queries at once give the logits of one uncached pass."""
    pair, req = tiny(positions=positions), request(3)
    scale = pair.scale("high")
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 64, (3, 64), generator=generator)
    labels = req.condition["labels"]
    conditional = teacher_forced(pair.high, labels, tokens)
    unconditional = teacher_forced(pair.high, torch.full_like(labels, 7), tokens)
    expected = unconditional + guidance * (conditional - unconditional)
    cache = scale.start(req.condition, guidance)
    torch.testing.assert_close(cache.first_logits_BV, expected[:, 0], atol=1e-4, rtol=1e-4)
    rows = torch.arange(3).repeat_interleave(63)
    cells = torch.arange(63).repeat(3)
    wrong = torch.randint(0, 64, (3 * 63,), generator=generator)
    scale.forward(cache, Queries(rows_M=rows, cells_M=cells, tokens_M=wrong))  # to be overwritten
    shuffled = torch.randperm(len(rows), generator=generator)
    queries = Queries(rows_M=rows[shuffled], cells_M=cells[shuffled], tokens_M=tokens[rows, cells][shuffled])
    logits = scale.forward(cache, queries)
    torch.testing.assert_close(logits, expected[queries.rows_M, queries.cells_M + 1], atol=1e-4, rtol=1e-4)


def test_a_query_count_never_changes_a_row():
    """Batch invariance (docs/method.md section 7): one query, or many beside it, or other images: the same bits."""
    pair, req = tiny(), request(5)
    scale = pair.scale("high")
    tokens = torch.randint(0, 64, (5, 64), generator=torch.Generator().manual_seed(2))

    def logits_of_cell_9(batch: int, upto: int) -> torch.Tensor:
        one = request(batch)
        cache = scale.start(one.condition, 2.0)
        rows, cells = torch.arange(batch).repeat_interleave(9), torch.arange(9).repeat(batch)
        scale.forward(cache, Queries(rows_M=rows, cells_M=cells, tokens_M=tokens[rows, cells]))
        rows, cells = torch.arange(batch).repeat_interleave(upto), torch.arange(9, 9 + upto).repeat(batch)
        return scale.forward(cache, Queries(rows_M=rows, cells_M=cells, tokens_M=tokens[rows, cells]))[0]

    expected = logits_of_cell_9(1, 1)
    for batch, upto in ((1, 2), (1, 7), (1, 33), (3, 1), (5, 50), (2, 17)):
        assert torch.equal(logits_of_cell_9(batch, upto), expected), (batch, upto)
    assert len(req.seeds_B) == 5


def test_a_whole_image_of_queries_gives_the_rows_of_single_ones():
    """256 queries a row, as a 128 px verification has them, against the same cells fed one at a time."""
    torch.manual_seed(0)
    model = TinyModel(16).eval().requires_grad_(False)
    scale = RasterScale(model.body, lambda condition: model.table[condition["labels"]], lambda: model.table[7:8])
    tokens = torch.randint(0, 64, (2, 256), generator=torch.Generator().manual_seed(3))
    rows, cells = torch.arange(2).repeat_interleave(256), torch.arange(256).repeat(2)
    cache = scale.start(request(2).condition, 2.0)
    together = scale.forward(cache, Queries(rows_M=rows, cells_M=cells, tokens_M=tokens.flatten())).view(2, 256, -1)
    cache = scale.start(request(2).condition, 2.0)
    for cell in range(256):
        one = Queries(rows_M=torch.arange(2), cells_M=torch.full((2,), cell), tokens_M=tokens[:, cell])
        assert torch.equal(scale.forward(cache, one), together[:, cell]), cell


def test_rows_that_fall_idle_are_moved_aside_and_come_back():
    """Six images stop one by one, so that rows move twice; then all are asked again: each as if it were alone."""
    pair, req = tiny(), request(6)
    scale = pair.scale("high", batch_invariant=False)
    tokens = torch.randint(0, 64, (6, 64), generator=torch.Generator().manual_seed(2))
    cache = scale.start(req.condition, 2.0)

    def feed(rows, cell, of=cache):
        rows = torch.tensor(rows)
        cells = torch.full_like(rows, cell)
        return scale.forward(of, Queries(rows_M=rows, cells_M=cells, tokens_M=tokens[rows, cell]))

    for cell, rows in enumerate([[0, 1, 2, 3, 4, 5], [5, 1, 3], [5, 3], [3], [3]]):
        feed(rows, cell)
    assert not cache.kv.in_order
    for row in range(6):  # catch up, the longest last
        for cell in range({3: 5, 5: 3, 1: 2}.get(row, 1), 6):
            feed([row], cell)
    together = feed(list(range(6)), 6)
    apart = scale.start(req.condition, 2.0)
    for cell in range(6):
        feed(list(range(6)), cell, apart)
    assert apart.kv.in_order
    torch.testing.assert_close(together, feed(list(range(6)), 6, apart), atol=1e-4, rtol=1e-4)
    for layer in range(2):
        torch.testing.assert_close(cache.kv.keys_RSAD[layer], apart.kv.keys_RSAD[layer], atol=1e-4, rtol=1e-4)
