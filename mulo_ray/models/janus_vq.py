"""The VQ tokenizer of LlamaGen and Tar, as the network that transformers ships for Janus under other names.

Shape letters: B images, H W cells, V codes, D code size. Pixels are float in [0, 1]. Knows no transformer body.
"""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.models.checkpoint import check_fit, fill, fill_random, renamed
from mulo_ray.models.containers import load_state
from mulo_ray.models.extras import need
from mulo_ray.models.vq_sizes import VQSizes

RENAMES = (
    (r"^encoder\.conv_blocks\.(\d+)\.res\.", r"encoder.down.\1.block."),
    (r"^decoder\.conv_blocks\.(\d+)\.res\.", r"decoder.up.\1.block."),
    (r"^encoder\.conv_blocks\.", "encoder.down."),
    (r"^decoder\.conv_blocks\.", "decoder.up."),
    (r"\.mid\.0\.", ".mid.block_1."),
    (r"\.mid\.1\.", ".mid.attn_1."),
    (r"\.mid\.2\.", ".mid.block_2."),
)
IGNORABLE = (r"quantize\.codebook_used",)  # training statistics


class VQCodec:
    """Pixels <-> tokens, on grids of any height and width. `codebook` (V, D) float32 has unit rows."""

    def __init__(self, network: Any, sizes: VQSizes) -> None:
        self.sizes = sizes
        self.network = network  # transformers publishes no types
        table: Tensor = network.quantize.embedding.weight
        # Files hold the codebook unnormalised and the official code normalises at every look-up: once is enough.
        with torch.no_grad():
            table.copy_(F.normalize(table.float(), dim=-1))
        self.codebook = table.float()

    @torch.inference_mode()
    def encode(self, pixels_BCHW: Tensor) -> Tensor:
        """Pixels (B, 3, sH, sW) -> tokens (B, H, W): the nearest code of each normalised vector; s is the stride."""
        vectors_BHWD = self.vectors(pixels_BCHW)
        # Unit vectors: the smallest distance is the largest cosine.
        return F.linear(vectors_BHWD, self.codebook).argmax(-1)

    def vectors(self, pixels_BCHW: Tensor) -> Tensor:
        """Unit vectors (B, H, W, D) float32 before quantisation."""
        network = self.network
        hidden = network.encoder((pixels_BCHW * 2 - 1).to(network.quant_conv.weight.dtype))
        return F.normalize(network.quant_conv(hidden).float().permute(0, 2, 3, 1), dim=-1)

    @torch.inference_mode()
    def decode(self, tokens_BHW: Tensor) -> Tensor:
        """Tokens (B, H, W) -> pixels (B, 3, sH, sW) float32, clamped."""
        return (self.decode_signed(tokens_BHW) * 0.5 + 0.5).clamp(0, 1)

    @torch.inference_mode()
    def decode_signed(self, tokens_BHW: Tensor) -> Tensor:
        """Tokens -> pixels as the network gives them: float32, about [-1, 1], unclamped."""
        network = self.network
        vectors_BHWD = network.quantize.embedding(tokens_BHW)
        hidden = network.post_quant_conv(vectors_BHWD.permute(0, 3, 1, 2).contiguous())
        pixels: Tensor = network.decoder(hidden)
        return pixels.float()


def janus_vq(
    sizes: VQSizes,
    path: Path | None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: str = "vq",
) -> VQCodec:
    """The tokenizer in `path`, an official file or safetensors; None gives seeded random weights.

    Raises CheckpointError when the file is unreadable or of other sizes, UsageError without transformers.
    """
    network = vq_network(sizes)
    if path is None:
        fill_random(network, seed, dtype)
    else:
        fill(network, load_state(path), path.name, dtype, RENAMES, IGNORABLE)
    return VQCodec(network.to(device), sizes)


def vq_network(sizes: VQSizes) -> nn.Module:
    """The network on the meta device: names and shapes without memory."""
    janus = need("transformers.models.janus.modeling_janus", "this family's image tokenizer")
    with torch.device("meta"):
        network: nn.Module = janus.JanusVQVAE(
            janus.JanusVQVAEConfig(
                embed_dim=sizes.code_dim,
                num_embeddings=sizes.codes,
                latent_channels=sizes.latent,
                base_channels=sizes.channels,
                channel_multiplier=list(sizes.multipliers),
                num_res_blocks=sizes.res_blocks,
            )
        )
    return network


def codebook_fingerprint(sizes: VQSizes, path: Path) -> str:
    """Sixteen hex digits of a tokenizer file's codebook; its other tensors are checked by shape only.

    Raises CheckpointError when the file does not hold a tokenizer of these sizes.
    """
    tensors = renamed(load_state(path), RENAMES, IGNORABLE)
    check_fit(vq_network(sizes), tensors, path.name)
    return hashlib.sha256(tensors["quantize.embedding.weight"].float().numpy().tobytes()).hexdigest()[:16]
