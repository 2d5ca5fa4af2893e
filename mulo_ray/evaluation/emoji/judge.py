"""The judge: which concepts a picture may show, by a linear head on its features. Knows no picture and no caption."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mulo_ray.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Features -> standardised by `mean` and `scale` (d,) -> `basis` (d, k) -> `weight` (k, C) and `bias` (C,).

    `names` are the C concepts.
    """

    mean: np.ndarray
    scale: np.ndarray
    basis: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    names: Sequence[str]

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Unnormalised log-probabilities (n, C) float32 of features (n, d)."""
        small = ((features - self.mean) / self.scale) @ self.basis.astype(np.float32)
        scores: np.ndarray = small @ self.weight.astype(np.float32) + self.bias
        return scores

    def ranks(self, features: np.ndarray, concepts: Sequence[str]) -> np.ndarray:
        """How many concepts are scored above the named one of each picture, (n,) int64: 0 is the first guess.

        Raises UsageError for a concept the judge does not know.
        """
        place = {name: index for index, name in enumerate(self.names)}
        unknown = sorted(set(concepts) - place.keys())
        if unknown:
            raise UsageError(
                f"the judge knows {len(place)} concepts, but not {', '.join(map(repr, unknown[:3]))}; "
                "use concept names of eval_prompts.jsonl, or fit a judge on your own pictures"
            )
        scores = self.scores(features)
        own = scores[np.arange(len(concepts)), [place[name] for name in concepts]]
        ranks: np.ndarray = (scores > own[:, None]).sum(1)
        return ranks

    def guesses(self, features: np.ndarray, count: int = 5) -> list[list[str]]:
        """The `count` likeliest concepts of each picture, best first."""
        best = np.argsort(-self.scores(features), axis=1)[:, :count]
        return [[self.names[index] for index in row] for row in best]

    def arrays(self) -> dict[str, np.ndarray]:
        """What to ship, the large ones in float16."""
        half = {name: getattr(self, name).astype(np.float16) for name in ("basis", "weight")}
        return half | {name: getattr(self, name).astype(np.float32) for name in ("mean", "scale", "bias")}
