"""One setting ready to decode in this process. Knows no clock and no file."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from mulo_ray.bench.settings import Setting
from mulo_ray.engine import Engine
from mulo_ray.seeding import image_seed
from mulo_ray.types import Prompt
from mulo_ray.workers.threads import limit_threads

if TYPE_CHECKING:
    from torch import Tensor

    from mulo_ray.decoding.interfaces import Generation, Request


class Contender:
    """Both roles of a setting, loaded."""

    def __init__(self, setting: Setting, engine: Engine, device: str = "cpu") -> None:
        limit_threads(device)
        self.setting = setting
        roles = engine.roles(setting.config)
        self._target = roles.target(device)
        self._drafter = None if roles.drafter is None else roles.drafter(device)

    def request(self, prompts: Sequence[Prompt]) -> "Request":
        """One micro-batch; PromptError for a caption that the family cannot read."""
        seed = self.setting.config.sampling.seed
        texts = [self._target.prompt_used(prompt.text) for prompt in prompts]
        return self._target.request(texts, [image_seed(seed, prompt.key, 0) for prompt in prompts])

    def decode(self, request: "Request") -> "Generation":
        """Tokens, on the CPU when this returns, and what they cost."""
        from mulo_ray.decoding.interfaces import generate

        generation = generate(self._target.decoder, None if self._drafter is None else self._drafter.decoder, request)
        generation.tokens_BHW = generation.tokens_BHW.cpu()
        return generation

    def pictures(self, tokens_BHW: "Tensor") -> list[np.ndarray]:
        """Pictures (side, side, 3) uint8."""
        found = []
        for png in self._target.render(tokens_BHW, [""] * len(tokens_BHW)):
            with Image.open(io.BytesIO(png)) as image:
                found.append(np.asarray(image.convert("RGB")))
        return found


Build = Callable[[Setting], Contender]
"""Loads a setting's networks."""
