"""The embedded family's text side: a caption becomes a fixed number of word slots of hashed ids.

Known words come first, so that a long caption is answered with what the family was trained on. Unknown words keep
their letter groups; an emoji character is read by its Unicode name. No caption is an error unless nothing can be
read in it. Knows no tensor library beyond building the id tensor, and no network.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from mulo_ray.errors import PromptError

SLOTS = 8
"""Words a condition holds."""
GRAMS = 12
"""Letter groups kept per word."""
BUCKETS = 4096
"""Rows of each hash table; id BUCKETS is an empty place."""

_STOP = frozenset(
    "a an the of with and or in on at to by for from is are was be being it its this that there some very two three "
    "near next up his her their while as into over picture image photo emoji icon drawing style sitting standing "
    "holding".split()
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def words(text: str) -> list[str]:
    """Lower-case words, symbols replaced by their Unicode names; stop words left out unless nothing else is there."""
    found = _WORD.findall(_spell_symbols(text).lower())
    content = [word for word in found if word not in _STOP]
    return content or found


def prompt_used(text: str, known: frozenset[str]) -> str:
    """The words the model will see, in order: known ones first when there are more than it has slots for.

    Raises PromptError when the caption holds no word and no named symbol.
    """
    found = list(dict.fromkeys(words(text[:100_000])))
    if not found:
        raise PromptError(
            f"the caption {text[:40]!r} has no letters, digits or named symbols; give it at least one word"
        )
    if len(found) > SLOTS:
        chosen = [w for w in found if w in known][:SLOTS]
        chosen += [w for w in found if w not in known][: SLOTS - len(chosen)]
        found = [w for w in found if w in set(chosen)]
    return " ".join(found)


def condition_ids(used: Sequence[str]) -> Tensor:
    """Ids (B, SLOTS, 1 + GRAMS) int64 of prompts already reduced by `prompt_used`; empty places hold BUCKETS."""
    ids = torch.full((len(used), SLOTS, 1 + GRAMS), BUCKETS, dtype=torch.int64)
    for row, text in enumerate(used):
        for slot, word in enumerate(text.split()[:SLOTS]):
            values = [_bucket("w", word), *(_bucket("g", gram) for gram in _grams(word))]
            ids[row, slot, : len(values)] = torch.tensor(values)
    return ids


def vocabulary(texts: Iterable[str]) -> list[str]:
    """Sorted content words of the training captions."""
    return sorted({word for text in texts for word in words(text)})


def _grams(word: str) -> list[str]:
    marked = f"<{word}>"
    return [marked[i : i + 3] for i in range(len(marked) - 2)][:GRAMS]


def _bucket(kind: str, text: str) -> int:
    return zlib.crc32(f"{kind}{text}".encode("utf-8", "surrogatepass")) % BUCKETS


def _spell_symbols(text: str) -> str:
    """Replace symbols (category So) by their Unicode names and drop what joins or colours them."""
    out: list[str] = []
    for character in unicodedata.normalize("NFKC", text):
        if unicodedata.category(character) in ("So", "Sk"):
            out.append(f" {unicodedata.name(character, '')} ")
        elif unicodedata.category(character) in ("Mn", "Cf", "Cc"):
            out.append(" " if character in "\n\t\r\0" else "")
        else:
            out.append(character)
    return "".join(out)
