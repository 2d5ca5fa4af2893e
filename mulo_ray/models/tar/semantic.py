"""TA-Tok's decoding half: semantic codes -> the features that AR-DTok takes as its condition.

Shape letters: B pictures, N semantic codes of a square grid, D code size, C feature size. Knows no language model.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import check_fit, fill, fill_random, renamed
from mulo_ray.models.containers import Container, read_container
from mulo_ray.models.extras import need
from mulo_ray.models.tar.config import SemanticSizes

RENAMES = ((r"^decoder\.vision_model\.", "decoder."),)  # transformers 5 dropped a level that the files have
IGNORABLE = (
    r"encoder\..*",  # pictures -> codes: never needed to make pictures
    r"encode_task_layer\..*",
    r"bottleneck\.in_linear\..*",
    r"scale_layer\..*",
    r"decoder\.(vision_model\.)?head\..*",
)
_TABLE = "bottleneck.regularizer.embedding.weight"
_BLOCK = "decoder.encoder.layers.0."
_ROWS_AT_ONCE = 8192


class SemanticDecoder(nn.Module):
    """The network under the published names. `use_ready_codes` must be called once it has its weights."""

    def __init__(self, sizes: SemanticSizes) -> None:
        super().__init__()
        siglip = need("transformers", "TA-Tok's decoder")
        self.sizes = sizes
        config = siglip.Siglip2VisionConfig(
            hidden_size=sizes.hidden,
            intermediate_size=sizes.ffn,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_channels=sizes.code_dim,
            num_patches=sizes.positions,
            patch_size=1,
            vision_use_head=False,
            attn_implementation="sdpa",
        )
        vision = siglip.Siglip2VisionModel(config)
        self.decoder: Any = getattr(vision, "vision_model", vision)
        regularizer = nn.ModuleDict(
            {
                "embedding": nn.Embedding(sizes.codes, sizes.code_dim),
                "embedding_proj": nn.Linear(sizes.code_dim, sizes.code_dim),
            }
        )
        self.bottleneck = nn.ModuleDict(
            {"regularizer": regularizer, "out_linear": nn.Linear(sizes.code_dim, sizes.code_dim)}
        )
        self.decode_task_layer = nn.Sequential(
            nn.Linear(sizes.hidden, sizes.hidden), nn.Tanh(), nn.Linear(sizes.hidden, sizes.hidden)
        )

    @torch.inference_mode()
    def use_ready_codes(self) -> None:
        """Project (and normalise) the table of codes once: a picture then only looks codes up."""
        regularizer: Any = self.bottleneck["regularizer"]
        table_VD = regularizer["embedding"].weight
        for start in range(0, len(table_VD), _ROWS_AT_ONCE):
            rows = regularizer["embedding_proj"](table_VD[start : start + _ROWS_AT_ONCE])
            table_VD[start : start + _ROWS_AT_ONCE] = F.normalize(rows, dim=-1) if self.sizes.normalised else rows

    @torch.inference_mode()
    def forward(self, codes_BN: Tensor) -> Tensor:
        """Codes of square grids -> features (B, N, C), one picture at a time: none depends on its company."""
        return torch.cat([self._features(one) for one in codes_BN.split(1)])

    def _features(self, codes_1N: Tensor) -> Tensor:
        regularizer: Any = self.bottleneck["regularizer"]
        side = math.isqrt(codes_1N.shape[1])
        assert side**2 == codes_1N.shape[1], "semantic grids are square"
        vectors_1ND = self.bottleneck["out_linear"](regularizer["embedding"](codes_1N))
        shapes = torch.tensor([[side, side]], device=codes_1N.device)
        seen = self.decoder(vectors_1ND, torch.ones_like(codes_1N), shapes).last_hidden_state
        features: Tensor = self.decode_task_layer(seen)
        return features


def semantic_decoder(
    sizes: SemanticSizes, path: Path | None, device: str | torch.device, dtype: torch.dtype
) -> SemanticDecoder:
    """The decoder in `path`, its sizes read from it; None gives seeded random weights of `sizes`.

    Raises CheckpointError when the file is unreadable or of another make, UsageError without transformers.
    """
    if path is None:
        network = _meta(sizes)
        fill_random(network, "ta_tok", dtype)
    else:
        container = read_container(path)
        network = _meta(sizes_in(container, sizes, path.name))
        fill(network, container.tensors, path.name, dtype, RENAMES, IGNORABLE)
    network.to(device).use_ready_codes()
    return network


def check_semantic(path: Path, sizes: SemanticSizes) -> None:
    """Open a file without loading it; CheckpointError when it holds no TA-Tok of the codes and features of `sizes`."""
    container = read_container(path)
    check_fit(_meta(sizes_in(container, sizes, path.name)), renamed(container.tensors, RENAMES, IGNORABLE), path.name)


def sizes_in(container: Container, expected: SemanticSizes, source: str) -> SemanticSizes:
    """The sizes that a file states by its shapes and its arguments; the number of heads is `expected`'s.

    Raises CheckpointError when it holds no TA-Tok, or one of other codes or features than `expected`.
    """
    tensors = renamed(container.tensors, RENAMES, IGNORABLE)
    wanted = (_TABLE, "decode_task_layer.2.weight", "decoder.embeddings.position_embedding.weight")
    absent = [name for name in (*wanted, f"{_BLOCK}mlp.fc1.weight") if name not in tensors]
    if absent:
        raise CheckpointError(f"{source} is no TA-Tok: it lacks {', '.join(absent)}")
    blocks = {name.split(".")[3] for name in tensors if name.startswith("decoder.encoder.layers.")}
    codes, code_dim = tensors[_TABLE].shape
    found = dataclasses.replace(
        expected,
        codes=codes,
        code_dim=code_dim,
        hidden=len(tensors["decode_task_layer.2.weight"]),
        layers=len(blocks),
        ffn=len(tensors[f"{_BLOCK}mlp.fc1.weight"]),
        positions=len(tensors["decoder.embeddings.position_embedding.weight"]),
        normalised=bool(_stated(container.arguments, ("bottleneck", "args", "regularizer", "args", "l2_normalized"))),
    )
    if (found.codes, found.hidden) != (expected.codes, expected.hidden):
        raise CheckpointError(
            f"{source} knows {found.codes} codes and gives features of size {found.hidden}; the family is set up with "
            f"{expected.codes} and {expected.hidden}"
        )
    return found


def _stated(arguments: Any, path: Sequence[str]) -> Any:
    """A constructor argument by its path; True, the published value, where a converted file states none."""
    for key in path:
        if not isinstance(arguments, dict) or key not in arguments:
            return True
        arguments = arguments[key]
    return arguments


def _meta(sizes: SemanticSizes) -> SemanticDecoder:
    with torch.device("meta"):
        return SemanticDecoder(sizes)
