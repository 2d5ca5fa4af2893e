"""Opens the files of the scales in use before anything starts: all there, of the right sizes, as their arguments say.

Reads shapes and codebooks, not weights. Knows no device.
"""

import json
from collections.abc import Collection
from pathlib import Path

from mulo_ray.errors import CheckpointError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import check_fit
from mulo_ray.models.containers import read_container
from mulo_ray.models.janus_vq import codebook_fingerprint
from mulo_ray.models.official_card import find_file
from mulo_ray.models.tar.config import TarConfig
from mulo_ray.models.tar.network import meta_network
from mulo_ray.models.tar.semantic import check_semantic


def check_files(card: FamilyCard, sides_px: Collection[int]) -> None:
    """Raise CheckpointError when a file of the scales in use is missing or of other sizes.

    All scales share one tokenizer and one TA-Tok, so that codes mean the same to all of them.
    """
    config: TarConfig = card.config
    if config.vocab < config.vq.codes:
        raise CheckpointError(
            f"{card.name} is set up with {config.vocab} codes in its image models and {config.vq.codes} in its "
            "tokenizer; the image models must know them all (docs/reports.md A7)"
        )
    if card.random:
        return
    codebook_fingerprint(config.vq, _file(card, config.tokenizer))
    check_semantic(_file(card, config.semantic), config.semantic_sizes)
    for px in sorted(sides_px):
        _check_scale(config, px, _file(card, config.scales[px]))
    language = card.folder / config.language
    if language.is_dir():
        _check_language(config, language)


def _file(card: FamilyCard, name: str) -> Path:
    path = find_file(card.folder, name)
    if path is None:
        raise CheckpointError(f"{card.name} needs {name} (or its .safetensors), which {card.folder} lacks")
    return path


def _check_scale(config: TarConfig, px: int, path: Path) -> None:
    """Arguments first: a wrong number in words helps more than the shapes that follow from it."""
    container = read_container(path)
    expected = {
        "vocab_size": config.vocab,
        "cls_token_num": config.trained_prefix,
        "max_seq_len": config.side(px) ** 2,
        "cond_dim": config.semantic_sizes.hidden,
    }
    stated = {name: container.arguments[name] for name in expected if name in container.arguments}
    wrong = [f"{name} {value} ({expected[name]} expected)" for name, value in stated.items() if value != expected[name]]
    if wrong:
        raise CheckpointError(f"{path.name} does not fit the {px} px scale: it was made with {', '.join(wrong)}")
    check_fit(meta_network(config, config.side(px)), container.tensors, path.name)


def _check_language(config: TarConfig, folder: Path) -> None:
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kind, words = data["model_type"], int(data["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder} is no language model that transformers saved ({error})") from error
    if kind != "qwen2" or words <= config.semantic_sizes.codes:
        raise CheckpointError(
            f"{folder} holds a {kind} of {words} words; expected a qwen2 with a word for each of "
            f"{config.semantic_sizes.codes} semantic codes"
        )
