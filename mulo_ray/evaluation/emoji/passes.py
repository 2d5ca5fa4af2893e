"""Features of a whole picture set, pass by pass: as drawn, in random views, and through a tokenizer and back.

A pass takes minutes, so each is kept in a folder and made once. Knows no concept.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mulo_ray.evaluation.emoji.features import Features
from mulo_ray.evaluation.emoji.variants import vary
from mulo_ray.models.vq import VQ
from mulo_ray.training.pictures import Pictures

_CHUNK = 256


class FeaturePasses:
    """Passes over `pictures`, kept under `folder` in parts of 256 pictures, so that a stopped pass goes on."""

    def __init__(self, pictures: Pictures, features: Features, folder: Path) -> None:
        self._pictures, self._features, self._folder = pictures, features, folder

    def plain(self) -> np.ndarray:
        """Features (n, d) of the pictures as they are."""
        return self._kept("plain", self._pixels, len(self._pictures.records))

    def views(self, number: int, chosen: np.ndarray | None = None) -> np.ndarray:
        """Features (n, d) of the `number`-th random view of each picture, or of those at `chosen`."""
        mirrors = np.array([record.mirrors for record in self._pictures.records])
        chosen = np.arange(len(mirrors)) if chosen is None else chosen

        def view(some: np.ndarray) -> np.ndarray:
            return vary(self._pixels(chosen[some]), mirrors[chosen[some]], seed=1_000_000 * number + int(some[0]))

        return self._kept(f"view-{number}-of-{len(chosen)}", view, len(chosen))

    def round_trip(self, vq: VQ, name: str, chosen: np.ndarray) -> np.ndarray:
        """Features (k, d) of what the tokenizer called `name` makes of the pictures at `chosen` (k,)."""
        return self._kept(
            f"round-trip-{name}-of-{len(chosen)}", lambda some: round_trip(vq, self._pixels(chosen[some])), len(chosen)
        )

    def _pixels(self, chosen: np.ndarray) -> np.ndarray:
        return np.asarray(self._pictures.pixels[chosen])

    def _kept(self, name: str, shown: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
        """`shown` gets indices of at most 256 of `count` pictures."""
        self._folder.mkdir(parents=True, exist_ok=True)
        parts = []
        for start in range(0, count, _CHUNK):
            path = self._folder / f"{name}-{start:06d}.npy"
            if not path.exists():
                part = self._features(shown(np.arange(start, min(start + _CHUNK, count))))
                with path.with_suffix(".part").open("wb") as file:
                    np.save(file, part.astype(np.float32))
                path.with_suffix(".part").replace(path)
                print(f"features of {name}: {min(start + _CHUNK, count)} of {count}", file=sys.stderr, flush=True)
            parts.append(np.load(path))
        return np.concatenate(parts)


@torch.inference_mode()
def round_trip(vq: VQ, pixels: np.ndarray) -> np.ndarray:
    """Pictures (n, s, s, 3) uint8 encoded to tokens and decoded again, eight at a time."""
    out = []
    for start in range(0, len(pixels), 8):
        x = torch.from_numpy(np.ascontiguousarray(pixels[start : start + 8])).permute(0, 3, 1, 2).float() / 255
        decoded = vq.decode(vq.encode(x))
        out.append((decoded * 255).round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(out) if out else pixels[:0]
