"""docs/reports.md A10 for every decoder: a call depends on its arguments alone, also after calls that failed."""

import pytest
import torch

from mulo_ray.decoding.autoregressive import AutoregressiveTarget, ZipARTarget
from mulo_ray.decoding.exact import ExactOptions, ExactTarget
from mulo_ray.decoding.interfaces import generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.speculative import SpeculativeTarget
from mulo_ray.decoding.tree_drafts import TreeOptions
from mulo_ray.decoding.trees import TreeTarget
from mulo_ray.models.eagle import EagleDraftHead, EagleHead
from mulo_ray.models.rescaler import PixelResampler
from tests.support.tiny import request, tiny

GUIDED = Sampling(guidance=3.0)


def roles(name):
    """(target, drafter, the target's scale), all new."""
    torch.manual_seed(0)
    pair = tiny()
    scale = pair.scale("high")
    if name == "exact":
        options = ExactOptions(rows_per_cycle=2, verify_window=6)
        return ExactTarget(scale, GUIDED, PixelResampler(pair.vq, 2), options), pair.drafter(GUIDED, rows=2), scale
    targets = {
        "ar": lambda: AutoregressiveTarget(scale, GUIDED),
        "zipar": lambda: ZipARTarget(scale, GUIDED, 3),
        "speculative": lambda: SpeculativeTarget(scale, tiny(9).scale("high"), GUIDED, chain=3),
        "eagle2": lambda: TreeTarget(
            scale,
            EagleDraftHead(EagleHead(pair.high.body.config).requires_grad_(False), pair.high.body),
            GUIDED,
            TreeOptions(depth=2, top_k=4, nodes=10),
        ),
    }
    if name == "mulo":
        target = pair.target(GUIDED, rows=2)
        return target, pair.drafter(GUIDED, rows=2), target._scale
    return targets[name](), None, scale


@pytest.mark.parametrize("name", ["ar", "zipar", "mulo", "exact", "speculative", "eagle2"])
def test_a_call_depends_on_its_arguments_alone(name, monkeypatch):
    """Four images, three others, the first four again, a call that raises half-way, the first four again."""
    target, drafter, scale = roles(name)
    first = generate(target, drafter, request(4)).tokens_BHW
    fresh = roles(name)
    assert torch.equal(
        generate(*fresh[:2], request(3, first=11)).tokens_BHW,
        generate(target, drafter, request(3, first=11)).tokens_BHW,
    )
    assert torch.equal(generate(target, drafter, request(4)).tokens_BHW, first)

    real, calls = scale.forward_features, []

    def failing(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("half-way")
        return real(*arguments, **options)

    monkeypatch.setattr(scale, "forward_features", failing)
    with pytest.raises(RuntimeError, match="half-way"):
        generate(target, drafter, request(4, first=20))
    assert torch.equal(generate(target, drafter, request(4)).tokens_BHW, first)
