"""The text side of LlamaGen: cleaning, tokens, features and their padding."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from mulo_ray.errors import CheckpointError, PromptError, UsageError
from mulo_ray.models.llamagen.captions import clean, prompt_used
from mulo_ray.models.llamagen.t5 import T5Conditioner, condition_from, left_padded
from tests.support.official import reference
from tests.support.tiny_llamagen import CONFIG, WORDS, write_tiny_t5


@pytest.mark.parametrize(
    ("caption", "used"),
    [
        ("A Cat on the Mat.", "a cat on the mat."),
        ("C++ & 100% <b>Rock'n'Roll</b> @home", "c 100% rock'n'roll"),
        ("see https://example.com/a/b for a dog", "see for a dog"),
        ("two%20dogs+and a cat", "two dogs and a cat"),
        ("IMG_2041.jpg", ""),
        ("a photo of <person> \u2014 \u201csmiling\u201d", 'a photo of person - "smiling"'),
        ("\u4e00\u4e8c a red apple", "a red apple"),
        ("red-and-green_and-blue_box", "red and green and blue box"),
        ("red-green box", "red-green box"),
        ("sofa 20x30 free shipping, page 4", "sofa"),
        ("#123 tags #red, AB1234 and jc6640vc", "tags red, and"),
        ("a \u00e2\u20ac\u0153small cat", 'a "small cat'),
        ("'quoted whole'", "quoted whole"),
        ("at 192.168.0.1   now...", "at now"),
        ("one,two.three/four", "one, two. three four"),
        ("tom &amp; jerry", "tom jerry"),
    ],
)
def test_captions_are_cleaned_as_in_training(caption: str, used: str) -> None:
    """docs/reports.md C6: the family's own cleaning, and only there."""
    assert clean(clean(caption)) == used


def test_a_caption_that_cleaning_empties_is_an_error_of_its_row() -> None:
    """reports C6 and C3."""
    assert prompt_used("C++ & 100% <b>Rock'n'Roll</b> @home") == "c 100% rock'n'roll"
    with pytest.raises(PromptError, match=r"cleaning leaves nothing of the caption 'https://a\.com'"):
        prompt_used("https://a.com")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ftfy", None)
    with pytest.raises(UsageError, match=r'needs ftfy, .* pip install "mulo-ray\[families\]"'):
        clean("a cat")


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> T5Conditioner:
    folder = tmp_path_factory.mktemp("t5")
    write_tiny_t5(folder, CONFIG.caption_dim)
    return T5Conditioner(folder, tokens=CONFIG.caption_tokens, caption_dim=CONFIG.caption_dim, device="cpu")


def test_padding_goes_to_the_left_as_the_official_step_does() -> None:
    outputs = reference("gpt_t2i_lo")
    pairs = zip(outputs["raw_right_padded_features"], outputs["raw_right_padded_mask"].bool(), strict=True)
    condition = left_padded([features[mask] for features, mask in pairs], tokens=120)
    assert torch.equal(condition["features_BPC"], outputs["cond"])
    assert torch.equal(condition["visible_BP"], outputs["emb_mask"].bool())


def test_features_are_those_of_transformers_and_of_no_neighbour(t5: T5Conditioner) -> None:
    """A caption alone, among others, and by the padded batch of the official code: to the bits of bfloat16."""
    texts = ["a cat", "a red dog on the pizza box", "the apple"]
    payloads = t5.encode(texts, [1, 2, 3])
    for text, payload in zip(texts, payloads, strict=True):
        [alone] = t5.encode([text], [9])
        assert (payload["features"] == alone["features"]).all()
        assert payload["features"].dtype == "uint16"
    ids = [t5.token_ids(text) for text in texts]
    batch = t5._tokenizer(texts, max_length=12, padding="max_length", truncation=True, return_tensors="pt")
    assert [
        row[mask.bool()].tolist() for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ] == ids
    with torch.inference_mode():
        hidden = t5._encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    condition = condition_from(payloads, tokens=12)
    expected = left_padded([row[: len(one)] for row, one in zip(hidden, ids, strict=True)], tokens=12)
    torch.testing.assert_close(condition["features_BPC"], expected["features_BPC"], atol=0.02, rtol=0.01)
    assert torch.equal(condition["visible_BP"], expected["visible_BP"])


def test_long_captions_are_cut_to_the_slots(t5: T5Conditioner) -> None:
    ids = t5.token_ids("a cat and " * 30)
    assert (len(ids), ids[-1]) == (12, 1)
    [payload] = t5.encode(["a cat and " * 30], [0])
    assert payload["features"].shape == (12, CONFIG.caption_dim)


def test_one_tokenizer_serves_many_threads(t5: T5Conditioner) -> None:
    """docs/reports.md C8: 16 threads, 250 calls each, of mixed length, against the same serially."""
    texts = [" ".join(WORDS[: 1 + number % len(WORDS)] * (1 + number % 3)) for number in range(50)]
    serial = [t5.token_ids(text) for text in texts]
    gate = threading.Barrier(16)

    def calls(first: int) -> bool:
        gate.wait()
        return all(t5.token_ids(texts[n % 50]) == serial[n % 50] for n in range(first, first + 250))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(calls, range(16)))


def test_an_encoder_of_another_size_and_a_folder_without_one_are_refused(tmp_path: Path) -> None:
    write_tiny_t5(tmp_path / "t5", 8)
    with pytest.raises(CheckpointError, match="features of size 8, the image model takes 16"):
        T5Conditioner(tmp_path / "t5", tokens=12, caption_dim=16, device="cpu")
    (tmp_path / "none").mkdir()
    with pytest.raises(CheckpointError, match="no T5 encoder with its tokenizer can be read"):
        T5Conditioner(tmp_path / "none", tokens=12, caption_dim=16, device="cpu")
