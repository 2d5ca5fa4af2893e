"""Keys and values of a batch, addressed by slot: written anywhere, overwritten at will, never append-only.

Slots 0..P-1 hold the condition, P+j the token of cell j.
Shape letters: R rows (B images, or 2B with guidance), S slots, A heads, D head size, M queries.
"""

import torch
from torch import Tensor


class KVCache:
    """Preallocated per layer; `write` is in place."""

    def __init__(self, *, layers: int, rows: int, slots: int, heads: int, head_dim: int, like: Tensor) -> None:
        self.slots = slots
        shape = (rows, heads, slots, head_dim)  # a head's slots side by side in memory: attention reads them in turn

        def empty() -> list[Tensor]:
            return [torch.zeros(shape, dtype=like.dtype, device=like.device).transpose(1, 2) for _ in range(layers)]

        self.keys_RSAD, self.values_RSAD = empty(), empty()

    def write(self, layer: int, rows_M: Tensor, slots_M: Tensor, keys_MAD: Tensor, values_MAD: Tensor) -> None:
        """Store one key and value per query at (row, slot); equal places must carry equal values."""
        self.keys_RSAD[layer].index_put_((rows_M, slots_M), keys_MAD)
        self.values_RSAD[layer].index_put_((rows_M, slots_M), values_MAD)

    def write_slot(self, layer: int, slot: int, keys_RAD: Tensor, values_RAD: Tensor) -> None:
        """Store every row's key and value at one slot."""
        self.keys_RSAD[layer][:, slot] = keys_RAD
        self.values_RSAD[layer][:, slot] = values_RAD

    def write_prefix(self, layer: int, keys_RPAD: Tensor, values_RPAD: Tensor) -> None:
        """Store the condition's keys and values at slots 0..P-1 of every row."""
        prefix = keys_RPAD.shape[1]
        self.keys_RSAD[layer][:, :prefix] = keys_RPAD
        self.values_RSAD[layer][:, :prefix] = values_RPAD

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(t.numel() * t.element_size() for t in (*self.keys_RSAD, *self.values_RSAD))
