"""Tokens of a picture set, made once per tokenizer and kept beside the pictures. Knows no transformer."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mulo_ray.errors import UsageError
from mulo_ray.models.vq import VQ
from mulo_ray.training.pictures import Pictures

_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSet:
    """Tokens (n, N) int16 of every picture, and of its mirror image (the same again where it has none)."""

    plain: Tensor
    mirror: Tensor

    def of(self, index: Tensor, mirrored: Tensor) -> Tensor:
        """Tokens (k, N) int64 of the pictures at `index`, from the mirror image where `mirrored`."""
        return torch.where(mirrored[:, None], self.mirror[index], self.plain[index]).long()


def tokenise(vq: VQ, pictures: Pictures, folder: Path) -> TokenSet:
    """Every picture's tokens, cached in `folder` under the tokenizer's fingerprint."""
    cache = folder / f"tokens-{pictures.px}-{fingerprint(vq)}.pt"
    if cache.exists():
        saved = torch.load(cache, weights_only=True)
        return TokenSet(plain=saved["plain"], mirror=saved["mirror"])
    plain = _encode(vq, pictures, torch.arange(len(pictures.records)), flip=False)
    mirror = plain.clone()
    mirrors = torch.tensor([i for i, record in enumerate(pictures.records) if record.mirrors], dtype=torch.int64)
    if len(mirrors):
        mirror[mirrors] = _encode(vq, pictures, mirrors, flip=True)
    torch.save({"plain": plain, "mirror": mirror}, cache)
    return TokenSet(plain=plain, mirror=mirror)


def fingerprint(vq: VQ) -> str:
    """Eight hexadecimal digits of a tokenizer's weights."""
    digest = hashlib.sha256()
    for value in vq.state_dict().values():
        digest.update(value.half().numpy().tobytes())
    return digest.hexdigest()[:8]


def refuse_other_tokenizer(stage: str, extra: dict[str, Any], mine: str) -> None:
    """UsageError when a checkpoint's tokens were another tokenizer's."""
    theirs = extra.get("tokenizer", mine)
    if theirs != mine:
        raise UsageError(
            f"the checkpoint of {stage} was trained on tokens of tokenizer {theirs}, now it is {mine}; "
            "put the old tokenizer back, or train this stage in another --checkpoints folder"
        )


@torch.inference_mode()
def _encode(vq: VQ, pictures: Pictures, index: Tensor, *, flip: bool) -> Tensor:
    out = []
    for some in index.split(_AT_ONCE):
        pixels = torch.from_numpy(pictures.pixels[some.numpy()]).permute(0, 3, 1, 2).float() / 255
        out.append(vq.encode(pixels.flip(3) if flip else pixels).flatten(1).to(torch.int16))
    return torch.cat(out)
