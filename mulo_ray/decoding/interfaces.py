"""What a model must offer to be decoded, and what a decoder offers to whoever drives it.

Shape letters: B images, M queries of one forward, N cells of a grid, V codebook entries, H W rows and columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from mulo_ray.decoding.stats import ImageStats

Condition = Mapping[str, Tensor]
"""A family's own encoding of B prompts; every tensor has leading size B. Opaque to decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One micro-batch: the condition of B prompts and the seed of each image."""

    condition: Condition
    seeds_B: Tensor  # int64, from mulo_ray.seeding.image_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The inputs of one forward, ragged over the batch: query m feeds token m of cell m of image m.

    Feeding writes the keys and values of that cell's slot and predicts the next cell in raster order. A branch of a
    draft tree instead borrows the slot of a later cell, where nothing lies yet, and says which slots it sees.
    """

    rows_M: Tensor
    cells_M: Tensor
    tokens_M: Tensor
    slots_M: Tensor | None = None  # cell slots to write; None: each cell's own
    seen_MN: Tensor | None = None  # bool; cell slots seen beside a query's own; None: all up to its own
    answers: int | None = None  # logits are wanted of the first so many only; None: of all


class Cache(Protocol):
    """Keys and values of B images at one scale, addressed by slot; made by `Scale.start`. G guidance halves (1 or 2),
    E width."""

    first_logits_BV: Tensor  # guided logits of cell 0, from the prefill
    first_hidden_GBE: Tensor  # the hidden states behind them, before the final norm


class Scale(Protocol):
    """A raster autoregressive image model at one grid size."""

    side: int  # cells per row and per column
    codebook_size: int

    def start(self, condition: Condition, guidance: float) -> Cache:
        """Prefill B conditions (and the shared unconditional prefix when guidance is not 1)."""

    def forward(self, cache: Cache, queries: Queries, visible_BN: Tensor | None = None) -> Tensor:
        """Write the queries' slots, attend causally, return guided float32 logits_MV of each query's next cell.

        `visible_BN` (bool) hides slots that hold nothing yet; a query always sees itself and the prefix.
        None: all cells before the query are visible.
        """


class FeatureScale(Scale, Protocol):
    """A scale that also shows its hidden states, for heads that draft from them."""

    def forward_features(
        self, cache: Cache, queries: Queries, visible_BN: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `forward`; beside the logits_MV the hidden states (G, M, E) before the final norm, of the answers too."""


class DraftHead(Protocol):
    """A small network that guesses the next token from the token before it and the target's hidden state that drew it.

    Where no true hidden state exists yet (inside a draft), its own guess of it is fed back.
    """

    def start(self, batch: int, guidance: float, spare: int) -> Any:
        """An empty cache for B images, with `spare` slots behind those of the cells."""

    def forward(self, cache: Any, queries: Queries, hidden_GME: Tensor) -> tuple[Tensor, Tensor]:
        """Guided logits_MV of each query's next cell, and the guessed hidden states (G, M, E) behind them."""


class Resampler(Protocol):
    """U_r and D_r: moves token grids between two scales (docs/method.md section 3)."""

    ratio: int

    def up(self, tokens_BHW: Tensor) -> Tensor:
        """(B, h, w) drafter tokens -> (B, h*r, w*r) target tokens."""

    def down(self, tokens_BHW: Tensor) -> Tensor:
        """(B, H, W) target tokens -> (B, H/r, W/r) drafter tokens."""


@dataclass(slots=True, kw_only=True)
class Generation:
    """The finished target tokens of one micro-batch, in the order of its request.

    `rejected_BHW` (bool): cells at which a draft was refused; None where nothing was drafted.
    """

    tokens_BHW: Tensor
    stats: list[ImageStats] = field(default_factory=list)
    rejected_BHW: Tensor | None = None


class Drafter(Protocol):
    """The low-resolution role. A slot names a micro-batch in flight; several are alive at once."""

    def begin(self, slot: int, request: Request) -> None: ...

    def draft(self, slot: int, committed_BHW: Tensor | None) -> Tensor:
        """The next block of whole low-resolution rows (B, d, w), given the rows committed so far (None at first)."""

    def finish(self, slot: int) -> Sequence[ImageStats]:
        """Free the slot; what drafting cost, per image."""


class Target(Protocol):
    """The high-resolution role."""

    def begin(self, slot: int, request: Request) -> None: ...

    def advance(self, slot: int, draft_BHW: Tensor | None) -> Tensor | None:
        """Verify and commit one block; the committed low-resolution rows for the drafter, or None when finished."""

    def finish(self, slot: int) -> Generation:
        """Free the slot and hand over its tokens."""


def generate(target: Target, drafter: Drafter | None, request: Request, slot: int = 0) -> Generation:
    """Decode one micro-batch in this process: the synchronous core that workers/ wraps as actors."""
    target.begin(slot, request)
    if drafter is None:
        target.advance(slot, None)
        return target.finish(slot)
    drafter.begin(slot, request)
    committed_BHW: Tensor | None = None
    while True:
        committed_BHW = target.advance(slot, drafter.draft(slot, committed_BHW))
        if committed_BHW is None:
            break
    generation = target.finish(slot)
    for image, drafting in zip(generation.stats, drafter.finish(slot), strict=True):
        image.add(drafting)
    return generation
