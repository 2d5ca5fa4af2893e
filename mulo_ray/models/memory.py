"""How much memory a family's networks and caches take, by arithmetic. Knows no torch, no device and no file."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleMemory:
    """The body of one scale. `prefix` are its condition slots, `side` its cells per row."""

    parameters: int
    layers: int
    dim: int
    prefix: int
    side: int
    vocab: int

    @property
    def slots(self) -> int:
        """Tokens whose keys and values an image keeps."""
        return self.prefix + self.side**2

    def kv_bytes(self, number_bytes: int, guided: bool = True) -> int:
        """Keys and values of one image: two rows with guidance."""
        return 2 * self.layers * self.dim * self.slots * number_bytes * (2 if guided else 1)

    def work_bytes(self, queries: int, number_bytes: int, guided: bool = True) -> int:
        """What a forward of `queries` cells of one image holds beside the cache: masks, activations, logits.

        Logits are float32: one map per guidance half, then the guided one, its logarithm, and noise in float64.
        """
        rows = 2 if guided else 1
        activations = rows * queries * number_bytes * (self.slots + 16 * self.dim)
        return activations + 4 * self.vocab * queries * (rows + 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyMemory:
    """What a plan needs of a family. Counts are of parameters; the tokenizer is always in float32."""

    scales: Mapping[int, ScaleMemory]
    tokenizer_parameters: int = 0
    tokenizer_channels: int = 128  # width at full resolution, which bounds the memory of one image's decoding
    conditioners: Mapping[str, int] = field(default_factory=dict)  # text networks, each a stage of its own
    conditioner_numbers: Mapping[str, int] = field(default_factory=dict)  # what they keep while they run

    def tokenizer_work_bytes(self, px: int) -> int:
        """Memory to decode one image: about six maps of full resolution are alive at once."""
        return 6 * 4 * self.tokenizer_channels * px * px
