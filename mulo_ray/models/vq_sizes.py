"""Sizes of the VQ tokenizers that LlamaGen and Tar share. Knows no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VQSizes:
    """Sizes of a tokenizer; no file states them, the image side is free."""

    multipliers: tuple[int, ...] = (1, 1, 2, 2, 4)
    channels: int = 128
    res_blocks: int = 2
    latent: int = 256
    codes: int = 16_384
    code_dim: int = 8

    @property
    def stride(self) -> int:
        """Pixels per cell and side."""
        return int(2 ** (len(self.multipliers) - 1))


VQ_16 = VQSizes()
VQ_8 = VQSizes(multipliers=(1, 2, 2, 4))

PARAMETERS = {VQ_16: 71_883_403, VQ_8: 70_109_835}
"""Of the published sizes; a test counts them."""
