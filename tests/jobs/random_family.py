"""The embedded family with random weights, as a --weights directory: real models where trained ones are absent."""

import json
from pathlib import Path


def write_random_family(folder: Path) -> None:
    """A 32 and a 64 px scale, a tokenizer, a card."""
    import torch
    from safetensors.torch import save_file

    from mulo_ray.models.eagle import EagleHead
    from mulo_ray.models.emoji.network import EmojiNetwork, emoji_config
    from mulo_ray.models.vq import VQ

    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    vq = VQ()
    networks = {"tokenizer": vq} | {
        f"scale-{px}": EmojiNetwork(emoji_config(px, vq.config.codebook_size)) for px in (32, 64)
    }
    for name, network in networks.items():
        save_file(
            {key: value.contiguous().clone() for key, value in network.state_dict().items()},
            folder / f"{name}.safetensors",
        )
    head = EagleHead(emoji_config(64, vq.config.codebook_size))
    save_file({key: value.contiguous().clone() for key, value in head.state_dict().items()}, folder / "h.safetensors")
    (folder / "words.txt").write_text("red apple cat dog\n")
    card = {
        "tokenizer": {"file": "tokenizer.safetensors"},
        "scales": {str(px): {"file": f"scale-{px}.safetensors", "side": px // 8} for px in (32, 64)},
        "heads": {"64": {"file": "h.safetensors"}},
        "default_pair": [32, 64],
        "defaults": {
            "guidance": 2.0,
            "tau": 0.005,
            "neighbours": 8,
            "radius": 1,
            "redraw": "islands",
            "rows_per_cycle": 2,
            "zipar_window": 3,
            "upsampler": "pixel",
            "refresh_cache": False,
        },
    }
    (folder / "family.json").write_text(json.dumps(card))
