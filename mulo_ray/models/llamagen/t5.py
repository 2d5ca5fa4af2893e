"""T5 features of captions as LlamaGen was trained with them, made one caption at a time and shipped without padding.

A payload is {"features": uint16 (n, C)}: the bits of bfloat16 numbers, for a caption's n tokens. Shape letters:
B captions, P condition slots, C feature size. Knows no image model.
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mulo_ray.decoding.interfaces import Condition
from mulo_ray.errors import CheckpointError
from mulo_ray.models.checkpoint import fill_random
from mulo_ray.models.dtypes import network_dtype
from mulo_ray.models.extras import need

Payload = Mapping[str, NDArray[Any]]

_RANDOM_SIZES = {"num_layers": 24, "num_heads": 32, "d_kv": 64, "d_ff": 5120, "vocab_size": 32128}  # flan-t5-xl
_FIRST_BYTE_ID = 3


class T5Conditioner:
    """The encoder and its tokenizer. Every caption is encoded alone at the full padded length, so that its features
    depend on no other caption."""

    def __init__(self, folder: Path | None, *, tokens: int, caption_dim: int, device: str) -> None:
        """`folder` holds a T5 encoder and its tokenizer as transformers saves them; None: random weights, and bytes
        for tokens.

        Raises CheckpointError when it cannot be read or has features of another size, UsageError without transformers.
        """
        self._tokens, self._device = tokens, torch.device(device)
        # A fast tokenizer holds its settings of padding and truncation, and cannot be used by two threads at once
        # (docs/reports.md C8).
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        dtype = network_dtype(device)
        transformers = need("transformers", "the T5 text encoder")
        if folder is None:
            config = transformers.T5Config(
                d_model=caption_dim, feed_forward_proj="gated-gelu", **_RANDOM_SIZES, is_encoder_decoder=False
            )
            with torch.device("meta"):
                encoder = transformers.T5EncoderModel(config)
            fill_random(encoder, "t5", dtype)
        else:
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                encoder = transformers.T5EncoderModel.from_pretrained(folder, dtype=dtype)
            except (OSError, ValueError, RuntimeError, ImportError) as error:
                raise CheckpointError(f"no T5 encoder with its tokenizer can be read in {folder}: {error}") from error
        if encoder.config.d_model != caption_dim:
            raise CheckpointError(
                f"the T5 encoder gives features of size {encoder.config.d_model}, the image model takes {caption_dim}"
            )
        self._encoder = encoder.requires_grad_(False).eval().to(self._device)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], seeds: Sequence[int]) -> list[dict[str, NDArray[Any]]]:
        """Payloads of texts that `prompt_used` returned, in their order. Nothing here is drawn: seeds are not used."""
        del seeds
        return [self._encode(ids) for ids in map(self.token_ids, texts)]

    def token_ids(self, text: str) -> list[int]:
        """Ids of a text, cut to the family's number of slots, its end mark included. Safe to call from any thread."""
        if self._tokenizer is None:
            return [*(_FIRST_BYTE_ID + byte for byte in text.encode()[: self._tokens - 1]), 1]
        with self._lock:
            ids: list[int] = self._tokenizer(text, truncation=True, max_length=self._tokens)["input_ids"]
        return ids

    def _encode(self, ids: list[int]) -> dict[str, NDArray[Any]]:
        row = torch.zeros(1, self._tokens, dtype=torch.int64, device=self._device)
        row[0, : len(ids)] = torch.tensor(ids, device=self._device)
        mask = torch.zeros_like(row)
        mask[0, : len(ids)] = 1
        hidden = self._encoder(input_ids=row, attention_mask=mask).last_hidden_state
        features = hidden[0, : len(ids)].bfloat16().cpu().contiguous()
        return {"features": features.view(torch.uint16).numpy()}


def condition_from(payloads: Sequence[Payload], *, tokens: int) -> Condition:
    """Payloads -> {"features_BPC" float32, "visible_BP" bool}, each caption at the end of its slots."""
    return left_padded(
        [torch.from_numpy(np.array(payload["features"])).view(torch.bfloat16).float() for payload in payloads],
        tokens=tokens,
    )


def left_padded(features: Sequence[Tensor], *, tokens: int) -> Condition:
    """Features (n, C) of each caption -> a condition; empty slots come first, hold zeros and are hidden."""
    features_BPC = torch.zeros(len(features), tokens, features[0].shape[1])
    visible_BP = torch.zeros(len(features), tokens, dtype=torch.bool)
    for row, rows_nC in enumerate(features):
        features_BPC[row, tokens - len(rows_nC) :] = rows_nC
        visible_BP[row, tokens - len(rows_nC) :] = True
    return {"features_BPC": features_BPC, "visible_BP": visible_BP}
