"""How good the pictures of a setting are: the judge, FD-EffLite0, and the target's own likelihood of the tokens.

Pictures are made once per setting, in batches of 16 and batch-invariant: their bytes depend on no batch. Parts of 64
captions are kept as they are made. Knows no clock.
"""

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from mulo_ray.bench.contender import Build, Contender
from mulo_ray.bench.kept import SHEET, Kept
from mulo_ray.bench.settings import Setting
from mulo_ray.bench.timing import Say
from mulo_ray.config import JobConfig
from mulo_ray.decoding.canvas import Canvas
from mulo_ray.decoding.interfaces import Request
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.evaluation.emoji.bootstrap import Bounds, paired_bounds, rate_difference
from mulo_ray.evaluation.emoji.features import features
from mulo_ray.evaluation.emoji.frechet import frechet_distance, moments
from mulo_ray.evaluation.emoji.kit import Kit
from mulo_ray.evaluation.emoji.prompts import EvalPrompt
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.family import load_family
from mulo_ray.types import Prompt

BATCH, PART = 16, 64
LEAST_FOR_FD = 500
"""Fewer pictures make the distance large and unsteady."""
_DRAWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Over n captions, in their order: rank of the captioned concept among the judge's guesses, features on the main
    axes (n, 64), nats per token (n,), a checksum of the tokens (n,)."""

    ranks: np.ndarray
    axes: np.ndarray
    nll: np.ndarray
    tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """A setting against plain decoding on the same captions: the difference of top-5 rates, the ratio of distances
    (None for few captions), the share of captions with the same tokens."""

    top5: Bounds
    fd: Bounds | None
    same_tokens: float
    n: int


class Likelihood:
    """Teacher forcing by the target: nats per token under its guided distribution at temperature 1, nothing cut off."""

    def __init__(self, config: JobConfig, card: FamilyCard, device: str) -> None:
        assert config.model.target_px is not None, "the config is resolved"
        assert config.sampling.guidance is not None, "the config is resolved"
        self._scale = load_family(card, device).scale(config.model.target_px, batch_invariant=False)
        self._sampling = Sampling(guidance=config.sampling.guidance)

    def nats_B(self, request: Request, tokens_BHW: Tensor) -> Tensor:
        """Mean over the cells of each image, (B,) float32 on the CPU."""
        canvas = Canvas(self._scale, request, self._sampling)
        canvas.place_rows(0, tokens_BHW.to(canvas.tokens_BN.device))
        rows = torch.arange(canvas.batch, device=canvas.tokens_BN.device).repeat_interleave(canvas.cells)
        cells = torch.arange(canvas.cells, device=rows.device).repeat(canvas.batch)
        logp_MV = canvas.predict(rows, cells).log_softmax(-1)
        return -logp_MV.gather(1, canvas.tokens_BN.flatten()[:, None]).view(canvas.batch, -1).mean(1).cpu()


def judge_setting(
    setting: Setting,
    build: Build,
    kept: Kept,
    kit: Kit,
    likelihood: Likelihood,
    captions: Sequence[EvalPrompt],
    say: Say,
) -> None:
    """Make and judge what is missing of a setting's pictures; its networks are loaded only where something is."""
    contender: Contender | None = None
    for start in range(0, len(captions), PART):
        wanted = captions[start : start + PART]
        there = kept.part(setting, start)
        if there is not None and len(there["ranks"]) >= len(wanted):
            continue
        contender = contender or build(setting)
        say(f"pictures of {setting.name}: {start + len(wanted)} of {len(captions)}")
        kept.put_part(setting, start, _part(contender, kept, kit, likelihood, wanted, start))


def judged(kept: Kept, setting: Setting, n: int) -> Judged | None:
    """The first `n` captions as they were judged, fewer where a run was stopped; None where none was."""
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, n, PART):
        part = kept.part(setting, start)
        if part is None:
            break
        parts.append(part)
    if not parts:
        return None
    return Judged(**{field.name: np.concatenate([part[field.name] for part in parts])[:n] for field in fields(Judged)})


def _part(
    contender: Contender, kept: Kept, kit: Kit, likelihood: Likelihood, captions: Sequence[EvalPrompt], start: int
) -> dict[str, np.ndarray]:
    pictures: list[np.ndarray] = []
    nats, checksums = [], []
    for first in range(0, len(captions), BATCH):
        prompts = [Prompt(key=one.key, text=one.text) for one in captions[first : first + BATCH]]
        request = contender.request(prompts)
        tokens_BHW = contender.decode(request).tokens_BHW
        nats.append(likelihood.nats_B(request, tokens_BHW).numpy())
        checksums += [zlib.crc32(grid.numpy().tobytes()) for grid in tokens_BHW]
        pictures += contender.pictures(tokens_BHW)
    for number in range(start, min(SHEET, start + len(pictures))):
        kept.put_picture(contender.setting, number, _png(pictures[number - start]))
    seen = features(pictures)
    return {
        "ranks": kit.judge.ranks(seen, [one.name for one in captions]),
        "axes": (seen @ kit.axes).astype(np.float32),
        "nll": np.concatenate(nats),
        "tokens": np.array(checksums, dtype=np.int64),
    }


def parity(kit: Kit, ours: Judged, plain: Judged) -> Parity:
    """Bounds by drawing the captions again, over those that both were judged on."""
    n = min(len(ours), len(plain))
    mine, theirs = ours.axes[:n].astype(np.float64), plain.axes[:n].astype(np.float64)
    distances = None
    if n >= LEAST_FOR_FD:
        real = kit.real.projected(kit.axes)

        def ratio(chosen: np.ndarray) -> float:
            ours, plain = (frechet_distance(moments(axes[chosen]), real) for axes in (mine, theirs))
            return ours / plain

        distances = paired_bounds(ratio, n, draws=_DRAWS)
    return Parity(
        top5=rate_difference(ours.ranks[:n] < 5, plain.ranks[:n] < 5),
        fd=distances,
        same_tokens=float((ours.tokens[:n] == plain.tokens[:n]).mean()),
        n=n,
    )


def _png(picture: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG")
    return buffer.getvalue()
