"""Captions for training: a picture's name and keywords in the ways people write them, drawn anew each time.

A caption always keeps enough words to mean its picture. Knows no tokens and no files.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

_FRAMES = ("{}", "{}", "{}", "a {}", "an emoji of a {}", "a picture of {}", "{} icon", "a drawing of the {}")
_STYLED = ("{style} {}", "{} in {style} style", "a {style} emoji of {}", "{}, {style}")
_ASIDES = ("{} and a {}", "{} with a {}", "{} next to a {}", "a {} on a {}", "{} in front of the {}")
_FILLERS = tuple(
    "beautiful big clean colorful cute day detailed enjoying funny good great lovely my nice outside parked "
    "really room shiny simple something today wooden young".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is known of a picture in words. Without keywords and style, its name is its caption."""

    name: str
    keywords: Sequence[str] = ()
    style: str = ""


def caption(picture: Described, rng: random.Random, others: Sequence[str] = ()) -> str:
    """One caption: name, name with keywords, or keywords alone; a style word, and words that say nothing.

    Some captions of a picture with keywords go on to one of `others`, names of pictures: the first named is drawn.
    """
    text = _content(picture, rng)
    if picture.keywords and others and rng.random() < 0.15:
        text = rng.choice(_ASIDES).format(picture.name, rng.choice(others).split()[-1])
    if rng.random() < 0.2:
        words = text.split()
        for _ in range(rng.randint(1, 3)):
            words.insert(rng.randint(0, len(words)), rng.choice(_FILLERS) if rng.random() < 0.5 else _unknown(rng))
        text = " ".join(words)
    if picture.style and rng.random() < 0.6:
        return rng.choice(_STYLED).format(text, style=picture.style)
    return rng.choice(_FRAMES).format(text)


def _content(picture: Described, rng: random.Random) -> str:
    draw = rng.random()
    if not picture.keywords or draw < 0.55:
        return picture.name
    some = rng.sample(list(picture.keywords), min(len(picture.keywords), rng.randint(1, 3)))
    if draw < 0.85:
        parts = [picture.name, *some]
        rng.shuffle(parts)
        return " ".join(parts)
    own = picture.name.split()
    return " ".join([*some, rng.choice(own)])


def _unknown(rng: random.Random) -> str:
    """A word that no caption holds, so that unknown words learn to mean nothing."""
    return "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))
