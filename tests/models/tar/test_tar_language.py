"""Tar's language stage on a tiny Qwen2: whole grids of codes by id, draws keyed by seed, bits that no company moves."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from mulo_ray.decoding.sampling import Sampling, sample
from mulo_ray.errors import CheckpointError, PromptError
from mulo_ray.models.tar.config import LANGUAGE_ROWS
from mulo_ray.models.tar.family import check_codes
from mulo_ray.models.tar.language import LanguageConditioner, SemanticWords, _payload
from tests.support.tiny_llamagen import WORDS
from tests.support.tiny_tar import CONFIG, replaced, write_tiny_language

TEXTS = ["a red cat", "two dogs sitting on a box with pizza", "an apple", "the blue cat and the red dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language")
    write_tiny_language(path)
    return path


@pytest.fixture(scope="module")
def language(folder: Path) -> LanguageConditioner:
    return LanguageConditioner(CONFIG, folder, "cpu")


def codes_of(language: LanguageConditioner, texts: list[str], seeds: list[int]) -> list[list[int]]:
    return [payload["codes"].tolist() for payload in language.encode(texts, seeds)]


def test_a_payload_depends_on_prompt_and_seed_alone(language: LanguageConditioner) -> None:
    """docs/reports.md B3: alone, in company, in another order, in more rows than one forward has."""
    together = codes_of(language, TEXTS, [1, 2, 3, 4])
    assert all(len(codes) == CONFIG.prefix and 0 <= min(codes) <= max(codes) < 80 for codes in together)
    assert codes_of(language, TEXTS[2:3], [3]) == together[2:3]
    assert codes_of(language, TEXTS[::-1], [4, 3, 2, 1]) == together[::-1]
    many = codes_of(language, TEXTS * 5, [1, 2, 3, 4] * 5)
    assert len(many) == 20 > LANGUAGE_ROWS
    assert many == together * 5
    assert codes_of(language, TEXTS[:1], [9]) != together[:1]
    assert codes_of(language, [TEXTS[1]], [1]) != together[:1]


def test_codes_are_the_draws_of_the_model_itself(language: LanguageConditioner) -> None:
    """Word by word without a cache, without padding, from the same noise."""
    ids = torch.tensor([language.token_ids(TEXTS[0])])
    sampling = Sampling(temperature=1.0, top_k=60, top_p=0.95)
    first, drawn = language._first, []
    with torch.inference_mode():
        for place in range(CONFIG.prefix):
            logits = language._model(input_ids=ids).logits[:, -1, first : first + 80]
            code = sample(logits, sampling, torch.tensor([7]), 0, torch.tensor([place]))
            drawn.append(int(code))
            ids = torch.cat([ids, first + code[:, None]], dim=1)
    assert codes_of(language, TEXTS[:1], [7]) == [drawn]


def test_the_prompt_is_that_of_the_official_script(language: LanguageConditioner, folder: Path) -> None:
    prompt = language._tokenizer.decode(language.token_ids("a cat"))
    asked = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\na cat<|im_end|>\n"
    assert prompt == f"{asked}<|im_start|>assistant\n<im_start><S0>"
    coarse = LanguageConditioner(replaced(semantic_scale=1), folder, "cpu")
    assert coarse._tokenizer.convert_ids_to_tokens(coarse.token_ids("a cat"))[-1] == "<S1>"
    assert len(codes_of(coarse, ["a cat"], [1])[0]) == 4


def test_words_that_are_no_codes_are_never_drawn() -> None:
    """docs/reports.md A8: the end word has by far the largest logit and is masked; the noise is that of the place."""
    scores = torch.zeros(2, 100)
    scores[:, 3] = 50.0
    processor = SemanticWords(20, 64, Sampling(), torch.tensor([5, 6]))
    drawn = [processor(torch.zeros(2, 1), scores.clone()).argmax(-1) for _ in range(40)]
    assert all(((words >= 20) & (words < 84)).all() for words in drawn)
    assert len({tuple(words.tolist()) for words in drawn}) > 30
    left = SemanticWords(20, 64, Sampling(), torch.tensor([5, 6]))(torch.zeros(2, 1), scores)
    assert (left > -torch.inf).sum(-1).tolist() == [1, 1]


def test_codes_that_are_no_whole_grid_are_an_error_of_their_row() -> None:
    """reports A8: past the mask, one word short and one that is no code; never padded with zeros."""
    assert _payload(torch.arange(20, 29), 20, 9, 64)["codes"].tolist() == list(range(9))
    with pytest.raises(PromptError, match="expected 9 semantic codes, got 8"):
        _payload(torch.arange(20, 28), 20, 9, 64)
    with pytest.raises(PromptError, match="expected 9 semantic codes, got 8: the other words are no codes"):
        _payload(torch.arange(19, 28), 20, 9, 64)
    with pytest.raises(PromptError, match="expected 9 semantic codes, got 10"):
        check_codes(torch.zeros(10, dtype=torch.int64), 9, 64)
    with pytest.raises(PromptError, match="expected semantic codes from 0 to 63, got 64"):
        check_codes(torch.tensor([0, 64]), 2, 64)


def test_a_caption_that_is_too_long_is_refused_with_both_numbers(language: LanguageConditioner) -> None:
    with pytest.raises(PromptError, match=r"the prompt has \d+ tokens with its template, 160 are allowed"):
        language.token_ids("a cat and " * 60)


def test_a_folder_without_the_words_of_pictures_is_refused(tmp_path: Path) -> None:
    """docs/reports.md A7: a language model of 40 codes for a TA-Tok of 80."""
    small = replaced(semantic_sizes=replaced().semantic_sizes.__class__(codes=40))
    write_tiny_language(tmp_path / "language", small)
    with pytest.raises(CheckpointError, match=r"lacks <I79>: it is not that of Tar"):
        LanguageConditioner(CONFIG, tmp_path / "language", "cpu")
    (tmp_path / "none").mkdir()
    with pytest.raises(CheckpointError, match="no Qwen2 with its tokenizer can be read"):
        LanguageConditioner(CONFIG, tmp_path / "none", "cpu")


def test_random_weights_are_the_same_in_every_process() -> None:
    one, two = (LanguageConditioner(CONFIG, None, "cpu") for _ in range(2))
    codes = codes_of(one, ["a cat"], [3])
    assert codes == codes_of(two, ["a cat"], [3])
    assert len(set(codes[0])) > 3


def test_one_tokenizer_serves_many_threads(language: LanguageConditioner) -> None:
    """docs/reports.md C8: 16 threads, 250 calls each, of mixed length, against the same serially."""
    texts = [" ".join(WORDS[: 1 + number % len(WORDS)]) for number in range(50)]
    serial = [language.token_ids(text) for text in texts]
    gate = threading.Barrier(16)

    def calls(first: int) -> bool:
        gate.wait()
        return all(language.token_ids(texts[n % 50]) == serial[n % 50] for n in range(first, first + 250))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(calls, range(16)))
