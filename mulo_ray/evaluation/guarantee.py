"""What a run's decoding rules promise: the target's own tokens, or a relaxation of them.

A property of the chosen rules, not of what a run happened to produce. Knows no image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mulo_ray.evaluation.finished import setting

_EXACT = {
    "exact": "every token is what plain decoding draws with the same seed, in float32: drafts are only guesses of it",
    "eagle2": "every token is what plain decoding draws with the same seed, in float32: the tree only guesses it",
    "speculative": "the ratio rule keeps the target's distribution; the tokens are other draws than plain decoding's",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """`exact`: tokens follow the target's own distribution; `reason` says whether they are plain decoding's as well."""

    exact: bool
    reason: str


def guarantee(resolved: Mapping[str, Any]) -> Guarantee:
    """The promise of a resolved config; an unknown decoder promises nothing."""
    decoder, tau, redraw = (setting(resolved, option) for option in ("decoder", "tau", "redraw"))
    if decoder == "ar":
        return Guarantee(exact=True, reason="plain decoding: every token is drawn by the target in raster order")
    if decoder in _EXACT:
        return Guarantee(exact=True, reason=_EXACT[decoder])
    if decoder == "lantern":
        delta, factor = setting(resolved, "lantern_delta"), setting(resolved, "lantern_lambda")
        bound = f"delta = {delta}" if factor is None else f"lambda = {factor}"
        if (factor or 1.0 + (delta or 0.0)) == 1:
            return Guarantee(exact=True, reason=f"{bound} counts no neighbour: {_EXACT['eagle2']}")
        return Guarantee(exact=False, reason=f"a draft token stands for its neighbours within {bound}")
    if decoder == "zipar":
        return Guarantee(exact=False, reason="zipar draws cells before all cells to their left and above are known")
    if decoder != "mulo":
        return Guarantee(exact=False, reason=f"no guarantee is known for decoder {decoder!r}")
    if tau is None or tau <= 1:
        return Guarantee(
            exact=False,
            reason=f"tau = {tau} keeps draft cells on their neighbourhood's mass alone; only tau above 1 keeps none",
        )
    if redraw != "raster":
        return Guarantee(exact=False, reason=f"{redraw} redraw shows cells a context with draft tokens in it")
    return Guarantee(exact=True, reason=f"tau = {tau} keeps no draft cell and raster redraw draws all of them in order")


def batch_sentence(resolved: Mapping[str, Any]) -> str:
    """How far a second run gives the same bytes (docs/method.md section 7)."""
    if setting(resolved, "batch_invariant"):
        return (
            "Batch-invariant: yes. An image depends on its prompt key, its sample number and the pixel hash alone, "
            "not on batch size, groups, retries or a resume (same device model, dtype, threads and library versions)."
        )
    size = setting(resolved, "batch_size")
    return (
        f"Batch-invariant: no. The same bytes come back only from the same micro-batches (batch size {size}, "
        "the same prompt list); other batch sizes may round differently."
    )
