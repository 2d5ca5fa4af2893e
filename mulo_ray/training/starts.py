"""What a stage may start from: a tokenizer or a scale trained before, or the weights in the package."""

import copy
import json
from pathlib import Path

from torch import Tensor, nn

from mulo_ray.errors import UsageError
from mulo_ray.models.checkpoint import fill, load_tensors
from mulo_ray.models.emoji.network import EmojiNetwork, EmojiSizes, default_sizes, emoji_config
from mulo_ray.models.emoji.sizes import scale_sizes
from mulo_ray.models.emoji.tokenizer import load_vq
from mulo_ray.models.vq import VQ, VQConfig
from mulo_ray.training.checkpoints import load_state
from mulo_ray.training.folders import Folder
from mulo_ray.training.tokens import fingerprint

PACKAGE_WEIGHTS = Path(__file__).parents[1] / "models" / "emoji" / "weights"


def load_tokenizer(place: str) -> VQ:
    """The trained tokenizer: the checkpoint in `place`, else the published one."""
    state = load_state(Folder(place), "tokenizer")
    if state is None:
        return load_vq(PACKAGE_WEIGHTS)
    vq = VQ(VQConfig(**state["extra"].get("config", {})))
    vq.load_state_dict(state["average"])
    vq.requires_grad_(False).eval()
    return vq


def sizes_of(place: str, px: int, *, fresh: bool = False) -> EmojiSizes:
    """Sizes of a scale: its checkpoint's, else the published scale's on the same tokenizer, else the default."""
    state = load_state(Folder(place), f"scale-{px}")
    if state is not None:
        return EmojiSizes(**state["extra"].get("sizes", {}))
    folder = PACKAGE_WEIGHTS
    published = (folder / f"scale-{px}.safetensors").exists()
    if fresh or not published or fingerprint(load_vq(folder)) != fingerprint(load_tokenizer(place)):
        return default_sizes(px)
    return scale_sizes(folder, px)


def scale_weights(place: str, px: int) -> dict[str, Tensor]:
    """Averaged weights of a scale: its checkpoint in `place`, else the published ones; UsageError where neither is."""
    state = load_state(Folder(place), f"scale-{px}")
    if state is not None:
        weights: dict[str, Tensor] = state["average"]
        return weights
    vq = load_tokenizer(place)
    tokenizer = fingerprint(vq)
    vocab, sizes = vq.config.codebook_size, sizes_of(place, px)
    network = EmojiNetwork(emoji_config(px, vocab, sizes.layers), sizes.text_dim)
    published = published_weights(network, f"scale-{px}", tokenizer)
    if published is None:
        raise UsageError(
            f"--start-from-px {px}: {place} holds no checkpoint scale-{px}.pt and no such scale is published; "
            "train that size first"
        )
    return published[0]


def published_weights(
    network: nn.Module, name: str, tokenizer: str | None = None
) -> tuple[dict[str, Tensor], int] | None:
    """Weights and step count of a published stage, to go on from on a bare machine; None if never published.

    None as well for weights that belong to another tokenizer than the one with the fingerprint `tokenizer`.
    """
    folder = PACKAGE_WEIGHTS
    path = folder / f"{name}.safetensors"
    if not path.exists():
        return None
    if tokenizer is not None and tokenizer != fingerprint(load_vq(folder)):
        return None
    like = copy.deepcopy(network)
    fill(like, load_tensors(path), path.name)
    card = json.loads((folder / "family.json").read_text(encoding="utf-8"))
    entries = [card["tokenizer"], *card["scales"].values(), *card.get("rescalers", {}).values()]
    entries += card.get("heads", {}).values()
    steps = next(entry["steps"] for entry in entries if entry["file"] == path.name)
    return like.state_dict(), steps
