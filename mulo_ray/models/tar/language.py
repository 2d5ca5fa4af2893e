"""Tar's language stage: Qwen2 writes the semantic codes of a picture, one word each, as text goes on after a prompt.

A payload is {"codes": uint16 or int32 (N,)}. It depends on the prompt, the seed and the weights alone: prompts are
padded to one length, forwards always have the same number of rows, and every draw takes its noise from the seed.
Shape letters: B prompts of one forward, N semantic codes, V words. Knows no image model.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mulo_ray.decoding.sampling import Sampling, sample
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.checkpoint import fill_random
from mulo_ray.models.dtypes import network_dtype
from mulo_ray.models.extras import need
from mulo_ray.models.tar.config import LANGUAGE_ROWS, TarConfig

SYSTEM = "You are a helpful assistant."


class SemanticWords:
    """A logits processor: only words of pictures are drawn, each with the noise of its own (seed, place).

    `generate` takes the likeliest word of what this leaves, so the draw is made here. `places` counts the words drawn.
    """

    def __init__(self, first: int, codes: int, sampling: Sampling, seeds_B: Tensor) -> None:
        self._first, self._codes, self._sampling, self._seeds_B = first, codes, sampling, seeds_B
        self.places = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits (B, V) -> 0 at the word drawn, -inf elsewhere."""
        del input_ids
        logits_BK = scores[:, self._first : self._first + self._codes]
        place_B = torch.full_like(self._seeds_B, self.places)
        # Side 0 keeps this noise apart from that of every image scale.
        drawn_B = self._first + sample(logits_BK, self._sampling, self._seeds_B, 0, place_B)
        self.places += 1
        return torch.full_like(scores, -torch.inf).scatter(1, drawn_B[:, None], 0.0)


class LanguageConditioner:
    """The language model and its tokenizer."""

    def __init__(self, config: TarConfig, folder: Path | None, device: str) -> None:
        """`folder` holds a Qwen2 and its tokenizer as transformers saves them; None: random weights, bytes for words.

        Raises CheckpointError when it cannot be read or lacks words, UsageError without transformers.
        """
        self._config, self._device = config, torch.device(device)
        options = config.language_sampling
        self._sampling = Sampling(
            temperature=float(options["temperature"]), top_k=int(options["top_k"]), top_p=float(options["top_p"])
        )
        # A fast tokenizer cannot be used by two threads at once (docs/reports.md C8).
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        transformers = need("transformers", "the language model of Tar")
        if folder is None:
            self._model = _random_model(config, network_dtype(device))
            self._first = config.vocabulary - config.semantic_sizes.codes
        else:
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                self._model = transformers.Qwen2ForCausalLM.from_pretrained(folder, dtype=network_dtype(device))
            except (OSError, ValueError, RuntimeError, ImportError) as error:
                raise CheckpointError(f"no Qwen2 with its tokenizer can be read in {folder}: {error}") from error
            self._first = _first_code(self._tokenizer, config, folder)
            words = self._model.config.vocab_size
            if self._first + config.semantic_sizes.codes > words:
                raise CheckpointError(
                    f"the language model in {folder} has {words} words, its tokenizer puts the codes of pictures at "
                    f"{self._first} to {self._first + config.semantic_sizes.codes - 1}"
                )
        self._model.requires_grad_(False).eval().to(self._device)
        # What a hub folder says here is for chatting; all that counts is in the family's configuration.
        self._model.generation_config = transformers.GenerationConfig(
            do_sample=False,
            max_new_tokens=config.prefix,
            min_new_tokens=config.prefix,
            repetition_penalty=config.repetition_penalty,
            pad_token_id=0,
            eos_token_id=None,
            use_cache=True,
        )

    def encode(self, texts: Sequence[str], seeds: Sequence[int]) -> list[dict[str, NDArray[Any]]]:
        """Payloads of texts that `prompt_used` returned, in their order.

        Raises PromptError for a text that is too long, or when codes are missing (docs/reports.md A8).
        """
        prompts = [self.token_ids(text) for text in texts]
        payloads: list[dict[str, NDArray[Any]]] = []
        for start in range(0, len(prompts), LANGUAGE_ROWS):
            payloads += self._encode(prompts[start : start + LANGUAGE_ROWS], seeds[start : start + LANGUAGE_ROWS])
        return payloads

    def token_ids(self, text: str) -> list[int]:
        """Ids of the whole prompt. Safe to call from any thread; PromptError when it is longer than all may be."""
        if self._tokenizer is None:
            ids = list(text.encode())
        else:
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
            with self._lock:
                prompt = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                prompt += f"<im_start><S{self._config.semantic_scale}>"
                ids = self._tokenizer(prompt, add_special_tokens=False)["input_ids"]
        if len(ids) > self._config.prompt_tokens:
            raise PromptError(
                f"the prompt has {len(ids)} tokens with its template, {self._config.prompt_tokens} are allowed: "
                "shorten the caption, or raise prompt_tokens in family.json"
            )
        return ids

    @torch.inference_mode()
    def _encode(self, prompts: Sequence[list[int]], seeds: Sequence[int]) -> list[dict[str, NDArray[Any]]]:
        """Up to LANGUAGE_ROWS prompts as LANGUAGE_ROWS rows, each at the right end of its row."""
        config, length = self._config, self._config.prompt_tokens
        ids = torch.zeros(LANGUAGE_ROWS, length, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row in range(LANGUAGE_ROWS):
            prompt = prompts[min(row, len(prompts) - 1)]
            ids[row, length - len(prompt) :] = torch.tensor(prompt)
            mask[row, length - len(prompt) :] = 1
        filled = [*seeds, *[0] * (LANGUAGE_ROWS - len(prompts))]
        seeds_B = torch.tensor(filled, dtype=torch.int64, device=self._device)
        codes = config.semantic_sizes.codes
        words = SemanticWords(self._first, codes, self._sampling, seeds_B)
        found = self._model.generate(
            input_ids=ids.to(self._device), attention_mask=mask.to(self._device), logits_processor=[words]
        )
        return [_payload(row, self._first, config.prefix, codes) for row in found[: len(prompts), length:].cpu()]


def _payload(words_N: Tensor, first: int, count: int, codes: int) -> dict[str, NDArray[Any]]:
    if len(words_N) != count:
        raise PromptError(f"expected {count} semantic codes, got {len(words_N)}: the writing ended early or late")
    codes_N = words_N - first
    strays = int(((codes_N < 0) | (codes_N >= codes)).sum())
    if strays:
        raise PromptError(f"expected {count} semantic codes, got {count - strays}: the other words are no codes")
    return {"codes": codes_N.numpy().astype(np.uint16 if codes <= 65_536 else np.int32)}


def _first_code(tokenizer: Any, config: TarConfig, folder: Path) -> int:
    """The id of <I0>, once all other words are known to be where they should."""
    last = config.semantic_sizes.codes - 1
    words = ["<im_start>", f"<S{config.semantic_scale}>", "<I0>", f"<I{last}>"]
    ids = tokenizer.convert_tokens_to_ids(words)
    absent = [word for word, number in zip(words, ids, strict=True) if number in (None, tokenizer.unk_token_id)]
    if absent:
        raise CheckpointError(f"the tokenizer in {folder} lacks {', '.join(absent)}: it is not that of Tar")
    first: int = ids[2]
    if ids[3] != first + last:
        raise CheckpointError(
            f"the tokenizer in {folder} has <I0> at {first} and <I{last}> at {ids[3]}; {first + last} was expected"
        )
    return first


def _random_model(config: TarConfig, dtype: torch.dtype) -> Any:
    """A Qwen2 of the published size with seeded weights."""
    transformers = need("transformers", "the language model of Tar")
    sizes = config.language_sizes
    published = transformers.Qwen2Config(
        vocab_size=config.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.ffn,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        tie_word_embeddings=sizes.tied,
        max_position_embeddings=32_768,
    )
    with torch.device("meta"):
        model = transformers.Qwen2ForCausalLM(published)
    fill_random(model, "qwen2", dtype)
    model.model.rotary_emb = type(model.model.rotary_emb)(published)  # a table that no file holds
    model.tie_weights()
    return model
