"""Opens the files of the scales in use before anything starts: all there, of the right sizes, of one codebook.

Reads shapes and codebooks, not weights. Knows no device.
"""

from collections.abc import Collection

from mulo_ray.errors import CheckpointError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.models.checkpoint import check_fit, renamed
from mulo_ray.models.containers import load_state
from mulo_ray.models.janus_vq import codebook_fingerprint
from mulo_ray.models.llamagen.config import LlamaGenConfig
from mulo_ray.models.llamagen.network import IGNORABLE, meta_network
from mulo_ray.models.official_card import find_file


def check_files(card: FamilyCard, sides_px: Collection[int]) -> None:
    """Raise CheckpointError when a scale or a tokenizer is missing or of other sizes, or codebooks differ.

    Two scales may name a tokenizer each; the same numbers mean the same picture only when their codebooks are equal
    (docs/reports.md A7).
    """
    config: LlamaGenConfig = card.config
    if config.vocab < config.vq.codes:
        raise CheckpointError(
            f"{card.name} is set up with {config.vocab} codes in its image model and {config.vq.codes} in its "
            "tokenizer; the image model must know them all"
        )
    if card.random:
        return
    fingerprints: dict[str, str] = {}
    for px in sorted(sides_px):
        files = config.scales[px]
        for name in (files.weights, files.tokenizer):
            if find_file(card.folder, name) is None:
                raise CheckpointError(
                    f"the {px} px scale of {card.name} needs {name} (or its .safetensors), which {card.folder} lacks"
                )
        _check_scale(card, px)
        path = find_file(card.folder, files.tokenizer)
        assert path is not None, "looked for above"
        fingerprints.setdefault(codebook_fingerprint(config.vq, path), f"{path.name} of {px} px")
    if len(fingerprints) > 1:
        found = " and ".join(f"{mark} in {where}" for mark, where in fingerprints.items())
        raise CheckpointError(f"the scales of {card.name} use different codebooks: {found}; they cannot work as a pair")


def _check_scale(card: FamilyCard, px: int) -> None:
    config: LlamaGenConfig = card.config
    path = find_file(card.folder, config.scales[px].weights)
    assert path is not None, "looked for by the caller"
    tensors = renamed(load_state(path), ignorable=IGNORABLE)
    embeddings = tensors.get("tok_embeddings.weight")
    if embeddings is not None and len(embeddings) != config.vocab:
        raise CheckpointError(
            f"{path.name} speaks {len(embeddings)} codes and the tokenizer has {config.vq.codes}; the {px} px scale of "
            f"{card.name} is expected to speak {config.vocab}"
        )
    check_fit(meta_network(config, config.side(px)), tensors, path.name)
