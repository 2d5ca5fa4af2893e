"""A LlamaGen family of a few thousand parameters, written in the official containers: two scales, VQ, T5, tokenizer."""

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from mulo_ray.models.checkpoint import fill_random
from mulo_ray.models.janus_vq import vq_network
from mulo_ray.models.llamagen.config import LlamaGenConfig, ScaleFiles
from mulo_ray.models.llamagen.network import meta_network
from mulo_ray.models.official_config import config_json
from mulo_ray.models.vq_sizes import VQSizes

FAMILY = "llamagen-t2i-xl"
CONFIG = LlamaGenConfig(
    kind="t2i",
    dim=32,
    layers=2,
    heads=2,
    vocab=64,
    caption_dim=16,
    caption_tokens=12,
    vq=VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=64),
    scales={8: ScaleFiles(weights="low.pt", tokenizer="vq.pt"), 16: ScaleFiles(weights="high.pt", tokenizer="vq.pt")},
    text="t5",
    defaults={"guidance": 3.0, "top_k": 40, "tau": 0.05, "neighbours": 4, "rows_per_cycle": 2, "zipar_window": 2},
)
WORDS = "a an the red blue cat dog apple pizza on with and box two of sitting".split()


def write_tiny_llamagen(folder: Path, config: LlamaGenConfig = CONFIG) -> None:
    """Stage 1 as a training container with its Namespace, stage 2 as `model` with a stray table, VQ as published."""
    folder.mkdir(parents=True, exist_ok=True)
    for px, files in config.scales.items():
        state = _random_state(meta_network(config, config.side(px)), f"tiny/{px}")
        beside = {"optimizer": {"state": {}}, "steps": 7, "args": argparse.Namespace(gpt_model="tiny", image_size=px)}
        first = px == min(config.scales)
        content = {"model": state, **beside} if first else {"model": state | {"freqs_cis": torch.zeros(1)}}
        torch.save(content, folder / files.weights)
    torch.save({"model": official_vq_state(config.vq)}, folder / "vq.pt")
    (folder / "family.json").write_text(config_json(FAMILY, config))
    if config.kind == "t2i":
        write_tiny_t5(folder / config.text, config.caption_dim)


def write_tiny_t5(folder: Path, caption_dim: int) -> None:
    """A random T5 encoder and a fast tokenizer of a few words, as transformers saves them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

    vocabulary = {token: number for number, token in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(5)
    sizes = T5Config(
        d_model=caption_dim, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=len(vocabulary),
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    T5EncoderModel(sizes).save_pretrained(folder)


def official_vq_state(sizes: VQSizes) -> dict[str, Tensor]:
    """Random tokenizer weights under the published names."""
    names = (
        ("encoder.down.", "encoder.conv_blocks."), ("decoder.up.", "decoder.conv_blocks."), (".block.", ".res."),
        (".mid.block_1.", ".mid.0."), (".mid.attn_1.", ".mid.1."), (".mid.block_2.", ".mid.2."),
    )  # fmt: skip
    state = {}
    for key, value in _random_state(vq_network(sizes), "tiny/vq").items():
        for ours, published in names:
            key = key.replace(ours, published)
        state[key] = value
    return state | {"quantize.codebook_used": torch.zeros(65536)}


def _random_state(network: nn.Module, seed: str) -> dict[str, Tensor]:
    fill_random(network, seed)
    return dict(network.state_dict())


def replaced(**changes: object) -> LlamaGenConfig:
    """The tiny configuration with other values."""
    return dataclasses.replace(CONFIG, **changes)  # type: ignore[arg-type]


def rewrite_card(folder: Path, **changes: object) -> None:
    """Change single values of a folder's family.json."""
    path = folder / "family.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
