"""Official outputs on tiny models (the reference folder of the shared data), and a sampler that draws as they did."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition, Queries
from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.models.raster import RasterCache, RasterScale

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
SETTINGS = {
    "plain": (11, Sampling(guidance=1.0), -1),
    "cfg": (12, Sampling(guidance=4.0), -1),
    "cfg_topk": (13, Sampling(guidance=4.0, top_k=20), -1),
    "cfg_topk_topp_temp": (14, Sampling(guidance=2.5, top_k=40, top_p=0.9, temperature=0.8), -1),
    "cfg_interval5": (15, Sampling(guidance=4.0), 5),
}
"""Name of the sample -> seed, sampling, and the decode step after which guidance ends (-1: never)."""


def reference_file(name: str) -> Path:
    """A file of the reference folder; the test is skipped where there is none."""
    path = REFERENCE / name
    if not path.is_file():
        pytest.skip(f"the shared reference outputs are not here ({path})")
    return path


def reference(name: str) -> dict[str, Tensor]:
    """The official outputs for a model, by name."""
    return load_file(reference_file(f"{name}_ref.safetensors"))


def official_tokens(
    scale: RasterScale, condition: Condition, sampling: Sampling, seed: int | None, guided_until: int = -1
) -> Tensor:
    """Tokens (B, N) cell by cell as the official loop draws them: one multinomial of torch's global generator per
    cell, or the likeliest with `seed` None. `guided_until` counts decode steps after the prefill."""
    if seed is not None:
        torch.manual_seed(seed)
    guided = scale.start(condition, sampling.guidance)
    plain = scale.start(condition, 1.0) if guided_until >= 0 else None
    logits, drawn = guided.first_logits_BV, []
    rows = torch.arange(len(logits))
    for cell in range(scale.side**2):
        probabilities = log_probabilities(logits, sampling).exp()
        token = probabilities.argmax(-1) if seed is None else torch.multinomial(probabilities, 1)[:, 0]
        drawn.append(token)
        queries = Queries(rows_M=rows, cells_M=torch.full_like(rows, cell), tokens_M=token)
        logits = scale.forward(guided, queries)
        if plain is not None:
            conditional = scale.forward(plain, queries)
            logits = conditional if cell > guided_until else logits
    return torch.stack(drawn, dim=1)


def cached_logits(scale: RasterScale, cache: RasterCache, tokens_BN: Tensor, chunks: list[int]) -> Tensor:
    """Logits (B, N, V) of every cell through the cache, fed `chunks` cells at a time; the last cell is not fed."""
    batch, parts, start = len(tokens_BN), [cache.first_logits_BV[:, None]], 0
    for size in chunks:
        cells = torch.arange(start, min(start + size, scale.side**2 - 1))
        rows = torch.arange(batch).repeat_interleave(len(cells))
        queries = Queries(rows_M=rows, cells_M=cells.repeat(batch), tokens_M=tokens_BN[:, cells].flatten())
        parts.append(scale.forward(cache, queries).view(batch, len(cells), -1))
        start += size
    return torch.cat(parts, dim=1)
