"""Small real roles without torch: tokens are lists of ints, pictures one colour that follows from text and seed.

Words of a text order a fault: "refuse" PromptError, "boom" ValueError while decoding, "fatal" CheckpointError while
decoding, "die" ends the target's process, "dieonce:PATH" and "hangonce:PATH" do so while PATH does not exist, and
"meet:FOLDER" fails unless a target of another process meets this one there within three minutes.
"""

import hashlib
import io
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from mulo_ray.decoding.stats import ImageStats
from mulo_ray.errors import CheckpointError, PromptError

ROUNDS = 3


def colour(text: str, seed: int) -> tuple[int, int, int]:
    digest = hashlib.sha256(f"{text}|{seed}".encode()).digest()
    return digest[0], digest[1], digest[2]


def png_of(text: str, seed: int) -> bytes:
    """What the stub family makes of one prompt, anywhere and in any company."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), colour(text, seed)).save(out, "PNG")
    return out.getvalue()


class _Role:
    def __init__(self, sleep_s: float = 0.0, journal: str = "") -> None:
        self.decoder = self
        self.sleep_s = sleep_s
        self.journal = journal
        self.slots: dict[int, Any] = {}

    def request(self, texts: Sequence[str], seeds: Sequence[int]) -> Any:
        return SimpleNamespace(texts=list(texts), seeds=list(seeds))

    def request_from(self, payloads: Sequence[Any], seeds: Sequence[int]) -> Any:
        texts = [bytes(payload["letters"]).decode() for payload in payloads]
        assert [int(payload["seed"]) for payload in payloads] == list(seeds)
        return SimpleNamespace(texts=texts, seeds=list(seeds))

    def work(self) -> None:
        """Take `sleep_s`, and leave a line with its start and end on the machine's clock."""
        started = time.monotonic()
        time.sleep(self.sleep_s)
        if self.journal:
            with Path(self.journal).open("a") as file:
                file.write(f"{type(self).__name__} {started} {time.monotonic()}\n")

    def begin(self, slot: int, request: Any) -> None:
        assert slot not in self.slots, "a slot in use was handed out again"
        self.slots[slot] = SimpleNamespace(request=request, round=0)


class StubDrafter(_Role):
    def draft(self, slot: int, committed: Any) -> list[int]:
        self.work()
        state = self.slots[slot]
        assert committed == (None if state.round == 0 else [state.round]), "the drafter continues what was committed"
        state.round += 1
        return [state.round] * len(state.request.texts)

    def finish(self, slot: int) -> list[ImageStats]:
        state = self.slots.pop(slot)
        return [ImageStats(forwards_drafter=state.round) for _ in state.request.texts]


class StubTarget(_Role):
    def prompt_used(self, text: str) -> str:
        if "refuse" in text.split():
            raise PromptError("this prompt is refused: say something else")
        return text.upper()

    def advance(self, slot: int, draft: Any) -> Any:
        self.work()
        state = self.slots[slot]
        for text in state.request.texts:
            _misbehave(text)
        if draft is None:
            return None
        state.round += 1
        assert draft == [state.round] * len(state.request.texts), "a draft of another round or micro-batch arrived"
        return None if state.round == ROUNDS else [state.round]

    def finish(self, slot: int) -> Any:
        state = self.slots.pop(slot)
        tokens = [(text, seed) for text, seed in zip(state.request.texts, state.request.seeds, strict=True)]
        return SimpleNamespace(tokens_BHW=tokens, stats=[ImageStats(forwards_target=state.round) for _ in tokens])

    def render(self, tokens_BHW: Any, prompts: Sequence[str]) -> list[bytes]:
        assert [text for text, _ in tokens_BHW] == [prompt.upper() for prompt in prompts]
        return [png_of(prompt, seed) for prompt, (_, seed) in zip(prompts, tokens_BHW, strict=True)]


class StubConditioner:
    """A text network: "mute" and "muddle" fail while encoding (for good; for now), "choke" ends the process,
    "stallonce:PATH" hangs while PATH does not exist."""

    def prompt_used(self, text: str) -> str:
        if "refuse" in text.split():
            raise PromptError("this prompt is refused: say something else")
        return text.upper()

    def encode(self, texts: Sequence[str], seeds: Sequence[int]) -> list[dict[str, Any]]:
        for text in texts:
            words = text.lower().split()
            if "mute" in words:
                raise PromptError("nothing can be said about this")
            if "muddle" in words:
                raise ValueError("the stub was told to fail")
            if "astray" in words:
                raise CheckpointError("no weights at 'nowhere.safetensors': pass --weights DIRECTORY")
            if "choke" in words:
                os._exit(9)
            for path in (Path(word.partition(":")[2]) for word in words if word.startswith("stallonce:")):
                if not path.exists():
                    path.touch()
                    time.sleep(600)
        return [
            {"letters": np.frombuffer(text.encode(), np.uint8), "seed": np.array(seed)}
            for text, seed in zip(texts, seeds, strict=True)
        ]


def make_conditioner(device: str) -> StubConditioner:
    return StubConditioner()


def fail_to_build_conditioner(device: str) -> StubConditioner:
    raise CheckpointError("no text network at 'nowhere': pass --weights DIRECTORY")


def _misbehave(text: str) -> None:
    for word in text.split():
        name, _, path = word.lower().partition(":")
        if name == "boom":
            raise ValueError("the stub was told to fail")
        if name == "fatal":
            raise CheckpointError("the codebook has 16 entries, the drafter's 32: use one tokenizer")
        if name == "die":
            os._exit(9)
        if name == "meet":
            Path(path, str(os.getpid())).touch()
            deadline = time.monotonic() + 180
            while len(list(Path(path).iterdir())) < 2:
                if time.monotonic() > deadline:
                    raise CheckpointError("no second group came")  # the run ends
                time.sleep(0.05)
        if name in ("dieonce", "hangonce") and not Path(path).exists():
            Path(path).touch()
            os._exit(9) if name == "dieonce" else time.sleep(600)


def make_drafter(device: str, *, sleep_s: float = 0.0, journal: str = "") -> StubDrafter:
    return StubDrafter(sleep_s, journal)


def make_target(device: str, *, sleep_s: float = 0.0, journal: str = "") -> StubTarget:
    return StubTarget(sleep_s, journal)


def fail_to_build(device: str) -> StubTarget:
    raise CheckpointError("no weights at 'nowhere.safetensors': pass --weights DIRECTORY")


def make_target_failing_once(device: str, *, how: str, flag: str) -> StubTarget:
    """The first one of a run ends its process ("die"), or raises what a file system may ("raise")."""
    if not Path(flag).exists():
        Path(flag).touch()
        if how == "die":
            os._exit(9)
        raise OSError("the stub could not read its weights")
    return StubTarget()


def die_while_building(device: str) -> StubTarget:
    os._exit(9)


def make_target_noting_its_device(device: str, *, folder: str) -> StubTarget:
    """Leaves a file that says which GPU this process was given."""
    Path(folder, f"target-{os.getpid()}").write_text(f"{device}:{os.environ['CUDA_VISIBLE_DEVICES']}")
    return StubTarget()


def make_drafter_noting_its_device(device: str, *, folder: str) -> StubDrafter:
    Path(folder, f"drafter-{os.getpid()}").write_text(f"{device}:{os.environ['CUDA_VISIBLE_DEVICES']}")
    return StubDrafter()


def big_picture(text: str, seed: int, size: int) -> bytes:
    """The small picture, padded: what reads PNG stops at its end."""
    return png_of(text, seed).ljust(size, b"\0")


class _BigTarget(StubTarget):
    size = 0

    def render(self, tokens_BHW: Any, prompts: Sequence[str]) -> list[bytes]:
        super().render(tokens_BHW, prompts)
        return [big_picture(prompt, seed, self.size) for prompt, (_, seed) in zip(prompts, tokens_BHW, strict=True)]


def make_target_of_big_pictures(device: str, *, size: int) -> StubTarget:
    target = _BigTarget()
    target.size = size
    return target
