"""From logits to tokens: one function for probabilities, keyed noise for draws (docs/method.md section 1).

Drafting, verifying and resampling all come through here, in float32. Shape letters: M draws, V codebook entries,
B images. Knows no model and no schedule.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

_MIX = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # splitmix64's odd constants, as signed 64-bit
_GREEDY_BELOW = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Resolved sampling options: guidance -> temperature -> top-k -> top-p -> softmax."""

    guidance: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def greedy(self) -> bool:
        return self.temperature < _GREEDY_BELOW


def guide(conditional: Tensor, unconditional: Tensor | None, guidance: float) -> Tensor:
    """u + s * (c - u) in float32; `unconditional` None means s = 1."""
    if unconditional is None:
        return conditional.float()
    return unconditional.float() + guidance * (conditional.float() - unconditional.float())


def log_probabilities(logits_MV: Tensor, sampling: Sampling) -> Tensor:
    """Guided logits -> float32 log-probabilities after temperature, top-k and top-p.

    Greedy gives a one-hot (0 and -inf). Top-p keeps the entry that crosses p; ties at the k-th value are all kept.
    """
    logits_MV = logits_MV.float()
    if sampling.greedy:
        best_M1 = logits_MV.argmax(-1, keepdim=True)
        return torch.full_like(logits_MV, -torch.inf).scatter(-1, best_M1, 0.0)
    logits_MV = logits_MV / sampling.temperature
    if 0 < sampling.top_k < logits_MV.shape[-1]:
        kth_M1 = logits_MV.topk(sampling.top_k, dim=-1).values[..., -1:]
        logits_MV = logits_MV.masked_fill(logits_MV < kth_M1, -torch.inf)
    if sampling.top_p < 1.0:
        sorted_MV, order_MV = logits_MV.sort(dim=-1, descending=True, stable=True)
        mass_before_MV = sorted_MV.softmax(-1).cumsum(-1) - sorted_MV.softmax(-1)
        dropped_MV = torch.zeros_like(logits_MV, dtype=torch.bool).scatter(
            -1, order_MV, mass_before_MV > sampling.top_p
        )
        logits_MV = logits_MV.masked_fill(dropped_MV, -torch.inf)
    return logits_MV.log_softmax(-1)


def gumbel(seeds_M: Tensor, side: int, cells_M: Tensor, entries: int, attempt: int = 0) -> Tensor:
    """Standard Gumbel noise (M, V) float32, a pure function of (seed, side of the scale, cell, attempt, entry).

    A counter-based generator: 64-bit mixing of the counter, so no draw depends on any other. Computed in float64, so
    that the last bit of a vectorised logarithm cannot reach the float32 result.
    """
    key_M = _mix(seeds_M ^ _mix(cells_M + (side << 32) + (attempt << 48)))
    bits_MV = _mix(key_M[:, None] + _counter(entries, seeds_M.device))
    uniform_MV = _shift(bits_MV, 11).double().add_(0.5).mul_(2.0**-53)
    return uniform_MV.log_().neg_().log_().neg_().float()


def draw(log_probabilities_MV: Tensor, noise_MV: Tensor) -> Tensor:
    """Tokens (M,) drawn from the distributions: argmax of log p + Gumbel noise; -inf is never drawn."""
    return (log_probabilities_MV + noise_MV).argmax(-1)


def scores(
    logits_MV: Tensor, sampling: Sampling, seeds_M: Tensor, side: int, cells_M: Tensor, attempt: int = 0
) -> Tensor:
    """What `sample` takes the argmax of, (M, V): log p + noise; greedy, the logits themselves."""
    if sampling.greedy:
        return logits_MV.float()
    return log_probabilities(logits_MV, sampling) + gumbel(seeds_M, side, cells_M, logits_MV.shape[-1], attempt)


def uniform(seeds_M: Tensor, side: int, cells_M: Tensor, attempt: int) -> Tensor:
    """One number in (0, 1) per cell (M,), float32, from the same generator."""
    return gumbel(seeds_M, side, cells_M, 1, attempt)[:, 0].neg().exp().neg().exp()


def sample(
    logits_MV: Tensor, sampling: Sampling, seeds_M: Tensor, side: int, cells_M: Tensor, attempt: int = 0
) -> Tensor:
    """Logits -> tokens (M,), each with its own cell's noise."""
    logp_MV = log_probabilities(logits_MV, sampling)
    if sampling.greedy:
        return logp_MV.argmax(-1)
    return draw(logp_MV, gumbel(seeds_M, side, cells_M, logits_MV.shape[-1], attempt))


def _mix(x: Tensor) -> Tensor:
    """splitmix64's finaliser on int64 with wrap-around; a fresh tensor, every further pass in place."""
    x = _shift(x, 30).bitwise_xor_(x).mul_(_MIX[1])
    x = _shift(x, 27).bitwise_xor_(x).mul_(_MIX[2])
    return _shift(x, 31).bitwise_xor_(x)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift of signed 64-bit integers."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


@functools.lru_cache(maxsize=8)
def _counter(entries: int, device: torch.device) -> Tensor:
    """The generator's counter over the entries; never written to."""
    with torch.inference_mode(False):
        return torch.arange(entries, device=device) * _MIX[0]
