"""A Tar family of a few thousand parameters in the official containers: Qwen2 with its tokenizer, TA-Tok, two AR-DToks,
VQ."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mulo_ray.models.checkpoint import fill_random
from mulo_ray.models.official_config import config_json
from mulo_ray.models.tar.config import LanguageSizes, SemanticSizes, TarConfig
from mulo_ray.models.tar.network import meta_network
from mulo_ray.models.tar.semantic import SemanticDecoder
from mulo_ray.models.vq_sizes import VQSizes
from tests.support.tiny_llamagen import official_vq_state

FAMILY = "tar-1.5b"
CONFIG = TarConfig(
    language="language",
    language_hub="nobody/nothing",
    language_sizes=LanguageSizes(hidden=32, layers=2, heads=4, kv_heads=2, ffn=48, tied=True, words=256),
    dim=32,
    layers=2,
    heads=2,
    vocab=64,
    vq=VQSizes(multipliers=(1, 1), channels=32, latent=32, codes=64),
    scales={8: "low.pth", 16: "high.pth"},
    tokenizer="vq.pt",
    semantic="ta_tok.pth",
    semantic_sizes=SemanticSizes(codes=80, code_dim=16, hidden=24, layers=1, heads=12, ffn=32, positions=16),
    semantic_sides=(3, 2, 1),
    prompt_tokens=160,
    language_sampling={"temperature": 1.0, "top_k": 60, "top_p": 0.95},
    defaults={"guidance": 3.0, "tau": 0.05, "neighbours": 4, "rows_per_cycle": 2, "zipar_window": 2},
)
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def replaced(**changes: object) -> TarConfig:
    """The tiny configuration with other values."""
    return dataclasses.replace(CONFIG, **changes)  # type: ignore[arg-type]


def rewrite_card(folder: Path, **changes: object) -> None:
    """Change single values of a folder's family.json."""
    path = folder / "family.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def write_tiny_tar(folder: Path, config: TarConfig = CONFIG) -> None:
    """All files under the names of `config`, with what else the published ones hold."""
    folder.mkdir(parents=True, exist_ok=True)
    for px, file in config.scales.items():
        network = meta_network(config, config.side(px))
        fill_random(network, f"tiny/{px}")
        arguments = {
            "model_type": "clip_cond",
            "cond_dim": config.semantic_sizes.hidden,
            "vocab_size": config.vocab,
            "cls_token_num": config.trained_prefix,
            "max_seq_len": config.side(px) ** 2,
        }
        _save(folder / file, "llama-abs-tiny", arguments, dict(network.state_dict()))
    torch.save({"model": official_vq_state(config.vq)}, folder / config.tokenizer)
    _save(
        folder / config.semantic, "ta_tok", semantic_arguments(config), official_semantic_state(config.semantic_sizes)
    )
    (folder / "family.json").write_text(config_json(FAMILY, config))
    write_tiny_language(folder / config.language, config)


def official_semantic_state(sizes: SemanticSizes) -> dict[str, Tensor]:
    """Random TA-Tok weights under the published names, with parts that only encoding needs."""
    with torch.device("meta"):
        network = SemanticDecoder(sizes)
    fill_random(network, "tiny/ta_tok")
    state = {
        key.replace("decoder.", "decoder.vision_model.") if key.startswith("decoder.") else key: value
        for key, value in network.state_dict().items()
    }
    unused = {"encoder.vision_model.embeddings.patch_embedding.weight", "encode_task_layer.0.weight"}
    unused |= {"bottleneck.in_linear.weight", "scale_layer.shift", "decoder.vision_model.head.probe"}
    return state | {name: torch.zeros(1) for name in unused}


def semantic_arguments(config: TarConfig) -> dict[str, Any]:
    """Constructor arguments as they lie in a published TA-Tok."""
    regularizer = {"codebook_size": config.semantic_sizes.codes, "l2_normalized": config.semantic_sizes.normalised}
    inner = {"name": "simvq", "args": regularizer}
    bottleneck = {
        "name": "bottleneck",
        "args": {"bottleneck_dim": config.semantic_sizes.code_dim, "regularizer": inner},
    }
    return {"bottleneck": bottleneck, "bottleneck_token_num": config.trained_prefix}


def write_tiny_language(folder: Path, config: TarConfig = CONFIG) -> None:
    """A random Qwen2, and its tokenizer of bytes with the words of pictures, as transformers saves them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocabulary = {byte: number for number, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<im_start>", "<im_end>"]
    marks += [f"<S{n}>" for n in range(3)] + [f"<I{n}>" for n in range(config.semantic_sizes.codes)]
    tokenizer.add_tokens([AddedToken(mark, normalized=False, special=True) for mark in marks])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    sizes = config.language_sizes
    torch.manual_seed(6)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(fast) + 3,  # published tables have a few idle rows at their end
            hidden_size=sizes.hidden,
            intermediate_size=sizes.ffn,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            tie_word_embeddings=sizes.tied,
            initializer_range=0.3,
        )
    )
    # As a hub folder may: values for chatting, which must not act here.
    model.generation_config.update(do_sample=True, top_k=1, repetition_penalty=1.9, eos_token_id=2)
    model.save_pretrained(folder)


def _save(path: Path, name: str, arguments: dict[str, Any], state: dict[str, Tensor]) -> None:
    torch.save({"model": {"name": name, "args": arguments, "sd": state}}, path)
