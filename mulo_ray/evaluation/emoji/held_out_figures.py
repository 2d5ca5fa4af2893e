"""What a family's networks make of real pictures: the tokenizer's PSNR and codes, and the scales' likelihoods.

The definitions are those of training. Knows no judge and makes no picture.
"""

import tempfile
from pathlib import Path

import numpy as np

from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import load_tensors
from mulo_ray.models.emoji.sizes import scale_sizes
from mulo_ray.models.vq import VQ
from mulo_ray.training.pictures import SIZES_PX, load_pictures
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.tokenizer import TokenizerStage
from mulo_ray.training.tokens import tokenise

_ALL = 1_000_000


def tokenizer_figures(vq: VQ, data: Path) -> dict[str, float]:
    """PSNR in dB of all held-out pictures at each size, and the share of codes that they use."""
    sets = {px: load_pictures(data, px) for px in sorted(SIZES_PX, reverse=True)}
    stage = TokenizerStage(sets, config=vq.config, check=_ALL)
    stage.average.load(vq.state_dict(), 0)
    return stage.evaluate()


def scale_figures(card: FamilyCard, vq: VQ, data: Path, check: int) -> dict[str, float]:
    """Nats per token at each size, of at most `check` pictures per split: held-out ones and some that were seen."""
    found: dict[str, float] = {}
    for px in sorted(card.scales):
        pictures = load_pictures(data, px)
        chosen = _some_of_each_split([record.split for record in pictures.records], check)
        some = type(pictures)(px=px, pixels=pictures.pixels[chosen], records=[pictures.records[i] for i in chosen])
        with tempfile.TemporaryDirectory() as folder:
            tokens = tokenise(vq, some, Path(folder))
        stage = ScaleStage(px, tokens, some.records, vq, sizes=scale_sizes(card.folder, px), check=check)
        stage.average.load(load_tensors(card.folder / f"scale-{px}.safetensors"), 0)
        found |= {f"{name}_{px}px": value for name, value in stage.evaluate().items()}
    return found


def _some_of_each_split(splits: list[str], check: int) -> list[int]:
    """Drawn at random, always the same: the set is sorted by style and sign, so its beginning is no sample of it."""
    shuffled = np.random.default_rng(0).permutation(len(splits))
    names = np.array(splits)[shuffled]
    return sorted(int(i) for split in set(splits) for i in shuffled[names == split][:check])
