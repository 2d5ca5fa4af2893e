"""Which settings a comparison takes: from words, one each, swept, and what the family cannot run."""

import dataclasses

import pytest

from mulo_ray.bench.options import CompareOptions, same_or_refuse
from mulo_ray.bench.settings import DECODERS, choose, headlines, parse
from mulo_ray.config import JobConfig
from mulo_ray.errors import UsageError
from mulo_ray.models.catalog import read_card

CARD = read_card("emoji")
BASE = JobConfig()
NO_HEADS = dataclasses.replace(CARD, heads={})


def test_plain_decoding_comes_first_at_its_fastest_and_once_more_invariant() -> None:
    settings, skipped = choose(BASE, CARD, ["mulo", "zipar"])
    assert [one.decoder for one in settings] == ["ar", "ar", "mulo", "zipar"]
    assert [one.invariant for one in settings] == [False, True, False, False]
    assert skipped == []
    assert all(one.for_pictures().invariant for one in settings)
    assert settings[0].for_pictures() == settings[1], "both are judged on the same pictures"


def test_a_decoder_that_the_family_cannot_run_is_skipped_with_its_sentence() -> None:
    settings, skipped = choose(BASE, NO_HEADS, ["eagle2", "lantern"], sweep=True)
    assert {one.decoder for one in settings} == {"ar"}
    assert [one.name for one in skipped] == ["eagle2", "lantern"], "once per reason"
    assert "needs an EAGLE head" in skipped[0].reason


def test_words_name_options_and_survive_a_round_trip() -> None:
    setting = parse("mulo tau=0.002 s=4 from=32 k=8 redraw=serial", BASE, CARD)
    decoding = setting.config.decoding
    assert (decoding.tau, decoding.zipar_window, decoding.neighbours, decoding.redraw) == (0.002, 4, 8, "serial")
    assert setting.config.model.drafter_px == 32
    assert parse(setting.name, BASE, CARD) == setting
    lantern = dataclasses.replace(CARD, heads={128: "head"})
    assert parse("lantern k=64 lambda=2", BASE, lantern).config.decoding.lantern_k == 64


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_sweep_has_no_setting_twice_and_files_of_their_own(decoder: str) -> None:
    card = dataclasses.replace(CARD, heads={128: "head"})
    settings, skipped = choose(BASE, card, [decoder], sweep=True)
    assert len({one.slug for one in settings}) == len(settings) > (1 if decoder == "ar" else 4)
    assert all("latent" in one.name for one in skipped), "all but samplers that may not be shipped can run"
    if decoder == "mulo":
        assert {one.config.model.drafter_px for one in settings if one.decoder == "mulo"} == {32, 64}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fast s=4", "begins with a decoder"),
        ("zipar tau=0.1", "'tau' in the setting 'zipar tau=0.1' means nothing to zipar; it knows s"),
        ("zipar s=four-ish", "must be a word, = and a value"),
        ("ar s=4", "means nothing to ar"),
    ],
)
def test_words_that_mean_nothing_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose(BASE, CARD, ["ar"], [text])
    assert words in str(refused.value)


def test_headlines_are_the_first_setting_with_all_the_words() -> None:
    settings, _ = choose(BASE, CARD, ["zipar", "mulo"], ["zipar s=4", "mulo from=32"], sweep=True)
    assert headlines(settings, ["zipar s=4", "mulo from=32"]) == {
        next(one.name for one in settings if one.decoder == "zipar" and "s=4" in one.words),
        next(one.name for one in settings if "from=32" in one.words),
    }
    with pytest.raises(UsageError, match="not compared"):
        headlines(settings, ["exact"])
    with pytest.raises(UsageError, match="8 settings at most, got 9"):
        headlines(settings, [one.name for one in settings[:9]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": "1,16", "limit": 8}, "--batch 16 needs as many captions to time, got --limit 8"),
        ({"batch": "1,x"}, "--batch takes whole numbers"),
        ({"batch": ""}, "--batch takes whole numbers"),
        ({"quality_n": -1}, "--quality-n must be 0 or more"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CompareOptions(**options)


def test_an_output_of_other_sampling_settings_is_refused_by_field() -> None:
    """docs/reports.md A4: ratios between unlike settings say nothing."""
    fixed = {"temperature": 0.3, "seed": 0}
    same_or_refuse(fixed, dict(fixed), "out")
    with pytest.raises(UsageError, match=r"temperature: 0\.3 there, 1\.0 now"):
        same_or_refuse(fixed, {"temperature": 1.0, "seed": 0}, "out")
