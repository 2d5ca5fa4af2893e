"""The captions of the evaluation: how many, of which split, and that nothing held out is called seen."""

from collections import Counter

from mulo_ray.evaluation.emoji.prompts import (
    SPLITS,
    EvalPrompt,
    draw_prompts,
    read_eval_prompts,
    read_sheet_prompts,
    write_prompts,
)  # fmt: skip
from mulo_ray.training.emoji_sources import STYLES, Concept, Icon
from mulo_ray.training.held_out import read_splits

CONCEPTS, COMBINATIONS = read_splits()


def _style(prompt: EvalPrompt) -> str:
    return prompt.picture.partition("/")[0]


def test_there_are_a_thousand_seen_captions_and_every_held_out_one() -> None:
    prompts = read_eval_prompts()
    assert Counter(prompt.split for prompt in prompts) == {"seen": 1000, "combination": 150, "concept": 60}
    assert len({prompt.key for prompt in prompts}) == len(prompts)
    assert len({prompt.name for prompt in prompts if prompt.split == "seen"}) == 1000
    assert {f"{_style(p)} {p.name}" for p in prompts if p.split == "combination"} == COMBINATIONS
    assert {p.name for p in prompts if p.split == "concept"} == CONCEPTS
    assert all(set(prompt.name.split()) <= set(prompt.text.replace(",", "").split()) for prompt in prompts)


def test_nothing_held_out_is_called_seen() -> None:
    for prompt in read_eval_prompts():
        if prompt.split == "seen":
            assert prompt.name not in CONCEPTS
            assert f"{_style(prompt)} {prompt.name}" not in COMBINATIONS, "the picture behind it was never trained on"
            said = [style for style in STYLES if style in prompt.text.replace(",", "").split()]
            assert all(f"{style} {prompt.name}" not in COMBINATIONS for style in said)


def test_a_held_out_combination_names_its_style() -> None:
    for prompt in read_eval_prompts():
        if prompt.split == "combination":
            assert _style(prompt) in prompt.text


def test_any_first_hundred_holds_every_split() -> None:
    assert {prompt.split for prompt in read_eval_prompts(limit=100)} == set(SPLITS)
    assert len(read_eval_prompts(limit=7)) == 7


def test_captions_are_drawn_by_seed_alone(tmp_path) -> None:
    names = [f"thing {n}" for n in range(40)]
    icons = [
        Icon(style=style, concept=Concept(code=f"{n:x}", name=name, keywords=("round",)), svg="")
        for style in STYLES
        for n, name in enumerate(names)
    ]
    held = frozenset(names[:5]), frozenset(f"noto {name}" for name in names[5:15])
    drawn = draw_prompts(icons, *held, seen=20, seed=1)
    assert drawn == draw_prompts(icons, *held, seen=20, seed=1) != draw_prompts(icons, *held, seen=20, seed=2)
    assert Counter(prompt.split for prompt in drawn) == {"seen": 20, "combination": 10, "concept": 5}
    templates = {prompt.text.replace(prompt.name, "*").replace(", round", "") for prompt in drawn}
    assert len(templates) > 8, "several ways of saying it"
    write_prompts(drawn, tmp_path / "prompts.jsonl")
    assert read_eval_prompts(path=tmp_path / "prompts.jsonl") == drawn


def test_the_sheet_has_sixty_four_captions_a_person_would_type() -> None:
    captions = read_sheet_prompts()
    assert len(set(captions)) == 64
    assert {"a slice of pizza", "a crying cat", "flag of Japan", "red heart", "snowy mountain"} <= set(captions)
    assert all(caption.strip() == caption and 5 <= len(caption) <= 60 for caption in captions)
