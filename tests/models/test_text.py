"""The embedded family's text side: never an error but for an unreadable caption, known words first, stable ids."""

import pytest
import torch

from mulo_ray.errors import PromptError
from mulo_ray.models.text import BUCKETS, GRAMS, SLOTS, condition_ids, prompt_used, vocabulary, words

KNOWN = frozenset({"cat", "pizza", "red", "apple"})


@pytest.mark.parametrize("text", ["", "   ", "\n", "\u200b", "...", "\u200b\u200d \ufe0f"])
def test_unreadable_captions_are_prompt_errors(text):
    """docs/reports.md C3: whitespace, zero-width and punctuation only."""
    with pytest.raises(PromptError, match="give it at least one word"):
        prompt_used(text, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000,
        "\U0001f34e" * 80,
        "a/b/../c",
        "nul\0here",
        "CON",
        "\u05e9\u05dc\u05d5\u05dd",
        "-rf",
        "two\nlines",
        "\u7ea2\u82f9\u679c",
        "a",
        "C++ & 100% <b>Rock'n'Roll</b> @home",
    ],
)
def test_odd_captions_are_read(text):
    """reports C2, C6: none of these is an error, and each fills at least one slot."""
    ids = condition_ids([prompt_used(text, KNOWN)])
    assert ids.shape == (1, SLOTS, 1 + GRAMS)
    assert ids[0, 0, 1] != BUCKETS
    assert 0 <= int(ids.min()) <= int(ids.max()) <= BUCKETS


def test_known_words_of_a_long_caption_come_first():
    long = "seven strangers wandered quietly through enormous echoing corridors until one cat found the pizza"
    used = prompt_used(long, KNOWN).split()
    assert len(used) == SLOTS
    assert {"cat", "pizza"} <= set(used)


def test_a_symbol_is_read_by_its_name():
    assert words("\U0001f34e") == ["red", "apple"]


def test_ids_are_stable_and_tell_words_apart():
    """The ids are part of the trained weights: a changed hash would silently read other rows."""
    ids = condition_ids(["red apple", "apple red"])
    assert torch.equal(ids[0, 0], ids[1, 1])
    assert not torch.equal(ids[0, 0], ids[0, 1])
    assert ids[0, 0, :2].tolist() == condition_ids(["red"])[0, 0, :2].tolist() == [420, 753]


def test_vocabulary_is_sorted_and_without_stop_words():
    assert vocabulary(["red apple", "a slice of pizza"]) == ["apple", "pizza", "red", "slice"]
