"""The one transformer body of every family (docs/method.md section 8): pre-norm blocks, RMSNorm, SwiGLU, fused qkv.

Positions are data: a rotary table with one row per slot (zero rows switch a condition's queries and keys off, unit
rows leave them unrotated), or an absolute table added to the input. Parameter names are those of the LlamaGen files.
Shape letters: B batch, S slots or sequence, M queries, A heads, D head size, E width. Knows no cache and no sampling.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Sizes of a body. `prefix` is the number of condition slots, `side` the cells per row and column."""

    dim: int
    layers: int
    heads: int
    vocab: int
    side: int
    prefix: int
    positions: Literal["rope", "absolute"] = "rope"
    condition_rotation: Literal["zero", "unit"] = "zero"
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5
    ffn_multiple: int = 256

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def ffn_dim(self) -> int:
        return math.ceil(int(8 * self.dim / 3) / self.ffn_multiple) * self.ffn_multiple

    @property
    def slots(self) -> int:
        return self.prefix + self.side**2


Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query, key, value), each (..., A, D) -> attended (..., A, D). The caller owns masks and caches."""


class RMSNorm(nn.Module):
    """x / rms(x) in float32, cast back, then times the weight."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:  # the same bits in one call
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class Attention(nn.Module):
    """Fused projections around a caller's attention."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.wqkv = nn.Linear(config.dim, 3 * config.dim, bias=False)
        self.wo = nn.Linear(config.dim, config.dim, bias=False)

    def forward(self, x: Tensor, rotary: Tensor | None, layer: int, attend: Attend) -> Tensor:
        qkv = self.wqkv(x).unflatten(-1, (3 * self.heads, -1))
        qk, v = qkv[..., : 2 * self.heads, :], qkv[..., 2 * self.heads :, :]
        if rotary is not None:
            qk = rotate(qk, rotary)
        q, k = qk.chunk(2, dim=-2)
        return self.wo(attend(layer, q, k, v).flatten(-2))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.w3 = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.w2 = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))  # type: ignore[no-any-return]


class Block(nn.Module):
    """h = x + attention(norm(x)); h + feed_forward(norm(h))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = RMSNorm(config.dim, config.norm_eps)

    def forward(self, x: Tensor, rotary: Tensor | None, layer: int, attend: Attend) -> Tensor:
        h = x + self.attention(self.attention_norm(x), rotary, layer, attend)
        return h + self.feed_forward(self.ffn_norm(h))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Token embeddings, blocks, final norm and an untied head. Conditions come in as prefix vectors (B, P, E)."""

    rotary_SD2: Tensor | None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tok_embeddings = nn.Embedding(config.vocab, config.dim)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.dim, config.norm_eps)
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        if config.positions == "absolute":
            self.abs_pe = nn.Parameter(torch.zeros(1, config.slots - 1, config.dim))
            self.rotary_SD2 = None
        else:
            self.register_buffer("rotary_SD2", rotary_table(config), persistent=False)

    def body(self, x: Tensor, slots: Tensor, attend: Attend) -> Tensor:
        """Embedded inputs (..., E) at `slots` (...) -> hidden states (..., E) before the final norm."""
        if self.config.positions == "absolute":
            x = x + self.abs_pe[0][slots.clamp(max=self.abs_pe.shape[1] - 1)]
        rotary = None if self.rotary_SD2 is None else self.rotary_SD2[slots.clamp(max=self.config.slots - 1)]
        for layer, block in enumerate(self.layers):
            x = block(x, rotary, layer, attend)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., E) -> float32 logits (..., V)."""
        return self.output(self.norm(hidden)).float()  # type: ignore[no-any-return]

    def forward(self, prefix_BPE: Tensor, tokens_BN: Tensor) -> Tensor:
        """Teacher forcing: logits_BNV of every cell given the condition and all cells before it."""
        return self.logits(self.hidden(prefix_BPE, tokens_BN))

    def hidden(self, prefix_BPE: Tensor, tokens_BN: Tensor) -> Tensor:
        """The hidden states (B, N, E) behind `forward`, before the final norm."""
        x = torch.cat([prefix_BPE, self.tok_embeddings(tokens_BN[:, :-1])], dim=1)
        slots = torch.arange(x.shape[1], device=x.device)
        return self.body(x, slots, causal)[:, self.config.prefix - 1 :]


def column_major(network: nn.Module) -> None:
    """Lay the weights of all linear layers out by input: on a CPU a forward of few rows then takes half the time.

    Shapes and values stay; the last bits of results do not, and so this is nothing for batch invariance.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear) and module.weight.device.type == "cpu":
            module.weight.data = module.weight.data.t().contiguous().t()


def rotary_table(config: TransformerConfig) -> Tensor:
    """Cosines and sines (S, D/2, 2) float32: half the pairs turn by row, half by column (docs/method.md section 8).

    Made on the CPU even where weights are to lie on the meta device: no file fills it later.
    """
    half = config.head_dim // 2
    frequencies = config.rope_base ** -(torch.arange(0, half, 2, device="cpu").float() / half)
    places = torch.arange(config.side, device="cpu").float()
    angles = places[:, None] * frequencies
    rows = angles[:, None].expand(config.side, config.side, half // 2)
    columns = angles[None, :].expand(config.side, config.side, half // 2)
    cells = torch.cat([rows, columns], dim=-1).flatten(0, 1)
    table = torch.stack([cells.cos(), cells.sin()], dim=-1)
    condition = torch.zeros(config.prefix, *table.shape[1:], device="cpu")
    if config.condition_rotation == "unit":
        condition[..., 0] = 1.0
    return torch.cat([condition, table])


def rotate(x: Tensor, rotary: Tensor) -> Tensor:
    """Turn interleaved pairs of (..., A, D) by (..., D/2, 2), in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    turned = pairs * torch.view_as_complex(rotary)[..., None, :]
    return torch.view_as_real(turned).flatten(-2).type_as(x)


def causal(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention over a whole sequence, without a cache."""
    del layer
    q, k, v = (t.transpose(-2, -3) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(-2, -3)
