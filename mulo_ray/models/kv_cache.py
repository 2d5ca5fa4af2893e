"""Keys and values of a batch, addressed by slot: written anywhere, overwritten at will, never append-only.

Slots 0..P-1 hold the condition, P+j the token of cell j. A row lies at a place: images that are finished are moved
behind those that are not, so that attention reads no more rows than it must.
Shape letters: R rows (B images, or 2B with guidance), S slots, A heads, D head size, M queries.
"""

import torch
from torch import Tensor


class KVCache:
    """Preallocated per layer; `write` is in place."""

    def __init__(self, *, layers: int, rows: int, slots: int, heads: int, head_dim: int, like: Tensor) -> None:
        self.rows, self.slots = rows, slots
        shape = (rows, heads, slots, head_dim)  # a head's slots side by side in memory: attention reads them in turn

        def empty() -> list[Tensor]:
            return [torch.zeros(shape, dtype=like.dtype, device=like.device).transpose(1, 2) for _ in range(layers)]

        self._keys, self._values = empty(), empty()
        self._row_R: Tensor | None = None  # the row at each place; None: every row at its own
        self._place_R: Tensor | None = None

    @property
    def in_order(self) -> bool:
        """Whether every row still lies at its own place."""
        return self._row_R is None

    @property
    def keys_RSAD(self) -> list[Tensor]:
        """Per layer, by row; copies once rows were moved."""
        return self._keys if self._row_R is None else [keys[self._place_R] for keys in self._keys]

    @property
    def values_RSAD(self) -> list[Tensor]:
        """Per layer, by row; copies once rows were moved."""
        return self._values if self._row_R is None else [values[self._place_R] for values in self._values]

    def front(self, used_R: Tensor) -> int:
        """How many places from the front hold all rows in use.

        Moves them there first when that many hold more idle rows than used ones: a copy that pays after a few forwards,
        and happens log2 R times at most while rows only fall idle.
        """
        used = used_R if self._row_R is None else used_R[self._row_R]
        places = used.nonzero(as_tuple=True)[0]
        last = int(places[-1]) + 1
        if last <= 2 * len(places):
            return last
        order = torch.cat([places, (~used[:last]).nonzero(as_tuple=True)[0]])
        for stored in (*self._keys, *self._values):
            stored[:last] = stored[order]
        rows_R = torch.arange(self.rows, device=order.device) if self._row_R is None else self._row_R.clone()
        rows_R[:last] = rows_R[order]
        self._row_R, self._place_R = rows_R, rows_R.argsort()
        return len(places)

    def places(self, rows_M: Tensor) -> Tensor:
        """Where rows lie."""
        return rows_M if self._place_R is None else self._place_R[rows_M]

    def by_place(self, values_R: Tensor, count: int) -> Tensor:
        """Something per row -> the same per place, of the first `count` places."""
        return values_R[:count] if self._row_R is None else values_R[self._row_R[:count]]

    def stored(self, layer: int, places: int, slots: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first places and slots, without a copy."""
        return self._keys[layer][:places, :slots], self._values[layer][:places, :slots]

    def write(self, layer: int, places_M: Tensor, slots_M: Tensor, keys_MAD: Tensor, values_MAD: Tensor) -> None:
        """Store one key and value per query at (place, slot); equal ones must carry equal values."""
        self._keys[layer].index_put_((places_M, slots_M), keys_MAD)
        self._values[layer].index_put_((places_M, slots_M), values_MAD)

    def write_slot(self, layer: int, slot: int, keys_RAD: Tensor, values_RAD: Tensor) -> None:
        """Store every row's key and value at one slot; rows in order."""
        self._keys[layer][:, slot] = keys_RAD
        self._values[layer][:, slot] = values_RAD

    def write_prefix(self, layer: int, keys_RPAD: Tensor, values_RPAD: Tensor) -> None:
        """Store the condition's keys and values at slots 0..P-1 of every row; rows in order."""
        prefix = keys_RPAD.shape[1]
        self._keys[layer][:, :prefix] = keys_RPAD
        self._values[layer][:, :prefix] = values_RPAD

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(t.numel() * t.element_size() for t in (*self._keys, *self._values))
