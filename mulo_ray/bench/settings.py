"""The settings that decoders are compared in: one each, some more by name, and a sweep.

A setting is written as its decoder and words, "mulo tau=0.001 s=4 from=32"; what is not said is the family's default.
Knows no torch and makes nothing.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from mulo_ray.config import PAIRS, DecoderName, DecoderOptions, JobConfig
from mulo_ray.errors import UsageError
from mulo_ray.models.catalog import FamilyCard
from mulo_ray.resolve import USED_BY, resolve

DECODERS: tuple[str, ...] = get_args(DecoderName)
YARDSTICK = "ar"
_WORDS = {
    "tau": ("tau",),
    "k": ("neighbours", "lantern_k"),
    "l": ("radius",),
    "redraw": ("redraw",),
    "d": ("rows_per_cycle",),
    "s": ("zipar_window",),
    "up": ("upsampler",),
    "refresh": ("refresh_cache",),
    "w": ("verify_window",),
    "chain": ("chain",),
    "tree": ("tree",),
    "depth": ("tree_depth",),
    "top": ("tree_top_k",),
    "nodes": ("tree_nodes",),
    "delta": ("lantern_delta",),
    "lambda": ("lantern_lambda",),
}
_FROM, _INVARIANT = "from", "invariant"
_ONE_EACH = {"ar": ("ar", "ar invariant=yes")}
_SWEEP = {
    "zipar": ("s=1", "s=2", "s=3", "s=4", "s=6", "s=8"),
    "exact": ("w=4", "w=8", "w=32", "w=0", "s=2", "s=4", "w=32 s=2"),
    "speculative": ("chain=2", "chain=8"),
    "eagle2": ("depth=3 nodes=16", "nodes=32", "depth=7", "top=10", "tree=static"),
    "lantern": ("k=100", "delta=0.1", "delta=0.2", "delta=0.6", "lambda=2", "lambda=4"),
    "mulo": (
        *("tau=0", "tau=0.0001", "tau=0.001", "tau=0.01", "tau=0.05", "tau=0.2", "tau=2"),
        *("k=1", "k=8", "k=64", "k=256"),
        *("l=0", "l=1", "l=2", "l=3", "l=4"),
        *("s=1", "s=2", "s=4", "s=8"),
        *("redraw=serial", "redraw=raster", "refresh=True", "up=nearest", "up=pixel", "up=latent", "invariant=yes"),
        *("tau=0.01 s=2", "tau=0.01 s=4", "tau=0.001 s=2", "tau=0.001 s=4", "tau=2 s=2", "tau=2 s=4"),
    ),
}
"""From the family's defaults, one axis at a time; a value that is the default is not measured twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A decoder with every option resolved."""

    config: JobConfig

    @property
    def decoder(self) -> str:
        return self.config.decoding.decoder

    @property
    def invariant(self) -> bool:
        return self.config.run.batch_invariant

    @property
    def words(self) -> tuple[str, ...]:
        """The setting as words, its drafter included; what is off is left out."""
        found = [] if self.config.model.drafter_px is None else [f"{_FROM}={self.config.model.drafter_px}"]
        for word, names in _WORDS.items():
            for name in names:
                value = getattr(self.config.decoding, name)
                if value is not None and not (word in ("d", "refresh") and not value):
                    found.append(f"{word}={value:g}" if isinstance(value, float) else f"{word}={value}")
        return (*found, f"{_INVARIANT}=yes") if self.invariant else tuple(found)

    @property
    def label(self) -> str:
        """What the table calls it; the drafter has a column of its own."""
        return " ".join(word for word in self.words if not word.startswith(f"{_FROM}=")) or "exact shapes"

    @property
    def name(self) -> str:
        """Decoder and words: no two settings share it."""
        return " ".join((self.decoder, *self.words))

    def for_pictures(self) -> "Setting":
        """The setting whose pictures stand for this one's: batch-invariant, so that they depend on no batch."""
        run = dataclasses.replace(self.config.run, batch_invariant=True)
        return Setting(config=dataclasses.replace(self.config, run=run))

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A setting that was asked for and cannot run, and the sentence that says why."""

    name: str
    reason: str


def choose(
    base: JobConfig, card: FamilyCard, decoders: Sequence[str], more: Sequence[str] = (), *, sweep: bool = False
) -> tuple[list[Setting], list[Skipped]]:
    """The settings to compare, the yardstick first and always there; and those that the family cannot run.

    Raises UsageError for words that mean nothing, and where plain decoding itself cannot run.
    """
    wanted = list(_ONE_EACH[YARDSTICK])
    for decoder in decoders:
        if decoder not in DECODERS:
            raise UsageError(f"--decoders must be among {', '.join(DECODERS)}, got {decoder!r}")
        wanted += _ONE_EACH.get(decoder, (decoder,))
    wanted += more
    if sweep:
        wanted += _swept(base, card, decoders)
    found: dict[str, Setting] = {}
    skipped: dict[str, Skipped] = {}
    for text in wanted:
        try:
            setting = parse(text, base, card)
        except _CannotRun as problem:
            if text in _ONE_EACH[YARDSTICK]:
                raise UsageError(str(problem)) from problem
            skipped.setdefault(str(problem), Skipped(name=text, reason=str(problem)))
            continue
        found.setdefault(setting.name, setting)
    return list(found.values()), list(skipped.values())


def parse(text: str, base: JobConfig, card: FamilyCard) -> Setting:
    """One setting from its decoder and words; UsageError where a word means nothing or the family cannot run it."""
    decoder, *words = text.split() or [""]
    if decoder not in DECODERS:
        raise UsageError(f"a setting begins with a decoder ({', '.join(DECODERS)}), got {text!r}")
    options: dict[str, Any] = {}
    drafter_px = base.model.drafter_px if decoder in PAIRS else None
    invariant = False
    for word in words:
        key, _, value = word.partition("=")
        if key == _FROM:
            drafter_px = int(_number(word, value))
        elif key == _INVARIANT:
            invariant = value == "yes"
        else:
            options[_field(decoder, key, text)] = _value(word, value)
    config = dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, drafter_px=drafter_px),
        decoding=DecoderOptions(decoder=decoder, **options),  # type: ignore[arg-type]
        run=dataclasses.replace(base.run, batch_invariant=invariant),
    )
    try:
        return Setting(config=resolve(config, card))
    except UsageError as problem:
        raise _CannotRun(str(problem)) from problem


def headlines(settings: Sequence[Setting], texts: Iterable[str], most: int = 8) -> set[str]:
    """The names of the settings that `texts` mean: of each decoder the first that has all the words.

    Raises UsageError where none has, or where more than `most` are meant.
    """
    names = set()
    for text in texts:
        decoder, *words = text.split()
        fitting = [one for one in settings if one.decoder == decoder and set(words) <= set(one.words)]
        if not fitting:
            there = "; ".join(one.name for one in settings)
            raise UsageError(f"--headlines names {text!r}, which is not compared; there are: {there}")
        names.add(fitting[0].name)
    if len(names) > most:
        raise UsageError(f"--headlines takes {most} settings at most, got {len(names)}: each is a thousand pictures")
    return names


class _CannotRun(UsageError):
    """The words are right, the family has not what they need."""


def _swept(base: JobConfig, card: FamilyCard, decoders: Sequence[str]) -> list[str]:
    """The sweep of each decoder; of `mulo` at every drafter that divides the target."""
    target_px = base.model.target_px or card.default_pair[1]
    drafters = [px for px in sorted(card.scales, reverse=True) if px < target_px and target_px % px == 0]
    found = []
    for decoder in decoders:
        found += [f"{decoder} {words}" for words in _SWEEP.get(decoder, ())]
        if decoder == "mulo":
            others = [px for px in drafters if px != (base.model.drafter_px or card.default_pair[0])]
            found += [f"mulo {_FROM}={px} {words}".strip() for px in others for words in ("", *_SWEEP["mulo"])]
    return found


def _field(decoder: str, key: str, text: str) -> str:
    for name in _WORDS.get(key, ()):
        if name in USED_BY[decoder]:
            return name
    known = [word for word, names in _WORDS.items() if set(names) & USED_BY[decoder]]
    raise UsageError(
        f"{key!r} in the setting {text!r} means nothing to {decoder}; it knows {', '.join(known) or 'none'}"
    )


def _value(word: str, value: str) -> Any:
    if value in ("True", "False"):
        return value == "True"
    return value if value.isalpha() and value else _number(word, value)


def _number(word: str, value: str) -> float:
    try:
        return int(value) if value.lstrip("-").isdigit() else float(value)
    except ValueError:
        raise UsageError(f"{word!r} in a setting must be a word, = and a value, such as s=4") from None
