"""LlamaGen against the outputs of the official code on tiny models: logits, greedy and sampled tokens."""

import pytest
import torch

from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.models.checkpoint import fill
from mulo_ray.models.containers import load_state
from mulo_ray.models.llamagen.config import CONFIGS, LlamaGenConfig
from mulo_ray.models.llamagen.family import raster_scale
from mulo_ray.models.llamagen.network import IGNORABLE, LlamaGenNetwork, meta_network
from mulo_ray.models.vq_sizes import VQSizes
from tests.support.official import SETTINGS, cached_logits, official_tokens, reference, reference_file

SIDE = 4
TINY = {"dim": 32, "layers": 2, "heads": 2, "vocab": 128, "vq": VQSizes(codes=128)}
MODELS = {
    "c2i": LlamaGenConfig(kind="c2i", scales={}, classes=10, **TINY),
    "t2i": LlamaGenConfig(kind="t2i", scales={}, caption_dim=24, **TINY),
}
assert set(TINY) < set(CONFIGS["llamagen-t2i-xl"].__dataclass_fields__)


def network_of(kind: str) -> LlamaGenNetwork:
    network = meta_network(MODELS[kind], SIDE)
    path = reference_file(f"gpt_{kind}_lo.pt")
    fill(network, load_state(path), path.name, ignorable=IGNORABLE)
    return network


def condition_of(kind: str, outputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if kind == "c2i":
        return {"labels_B": outputs["cond"]}
    return {"features_BPC": outputs["cond"], "visible_BP": outputs["emb_mask"].bool()}


@pytest.mark.parametrize("kind", ["c2i", "t2i"])
@pytest.mark.parametrize("chunks", [[1] * 15, [1, 3, 5, 6], [15]], ids=["one by one", "mixed", "at once"])
def test_logits_through_the_cache(kind: str, chunks: list[int]) -> None:
    """Conditional ones, and unconditional ones as what guidance 0 leaves."""
    scale, outputs = raster_scale(network_of(kind), batch_invariant=True), reference(f"gpt_{kind}_lo")
    condition, tokens = condition_of(kind, outputs), outputs["tf_tokens"].long()
    for guidance, name in ((1.0, "tf_logits_cond"), (0.0, "tf_logits_uncond")):
        found = cached_logits(scale, scale.start(condition, guidance), tokens, chunks)
        torch.testing.assert_close(found, outputs[name], atol=1e-4, rtol=0)


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize(("kind", "guidance"), [("c2i", 1.0), ("c2i", 4.0), ("t2i", 1.0), ("t2i", 7.5)])
def test_greedy_tokens(kind: str, guidance: float, invariant: bool) -> None:
    scale, outputs = raster_scale(network_of(kind), batch_invariant=invariant), reference(f"gpt_{kind}_lo")
    found = official_tokens(scale, condition_of(kind, outputs), Sampling(guidance=guidance), None)
    assert torch.equal(found, outputs[f"greedy_cfg{guidance:g}_tokens"].long())


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", ["c2i", "t2i"])
def test_sampled_tokens(kind: str, name: str) -> None:
    """The same seed draws the same codes, filters and the interval of guidance included."""
    seed, sampling, until = SETTINGS[name]
    scale, outputs = raster_scale(network_of(kind), batch_invariant=True), reference(f"gpt_{kind}_lo")
    found = official_tokens(scale, condition_of(kind, outputs), sampling, seed, until)
    assert torch.equal(found, outputs[f"sample_{name}_tokens"].long())


@pytest.mark.parametrize("kind", ["c2i", "t2i"])
def test_probabilities_after_the_filters(kind: str) -> None:
    outputs = reference(f"gpt_{kind}_lo")
    _, sampling, _ = SETTINGS["cfg_topk_topp_temp"]
    scale = raster_scale(network_of(kind), batch_invariant=True)
    cache = scale.start(condition_of(kind, outputs), sampling.guidance)
    tokens = outputs["sample_cfg_topk_topp_temp_tokens"].long()
    found = log_probabilities(cached_logits(scale, cache, tokens, [15]).flatten(0, 1), sampling).exp()
    expected = outputs["sample_cfg_topk_topp_temp_probs"].flatten(0, 1)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("guidance", [0.0, 0.5, 1.0, 1.0001, 7.5])
@pytest.mark.parametrize("kind", ["c2i", "t2i"])
def test_every_guidance_follows_the_formula(kind: str, guidance: float) -> None:
    """docs/reports.md A9: the official code treats 0 and 0.5 as off; here they mean what they say."""
    scale, outputs = raster_scale(network_of(kind), batch_invariant=True), reference(f"gpt_{kind}_lo")
    cache = scale.start(condition_of(kind, outputs), guidance)
    found = cached_logits(scale, cache, outputs["tf_tokens"].long(), [15])
    conditional, unconditional = outputs["tf_logits_cond"], outputs["tf_logits_uncond"]
    expected = unconditional + guidance * (conditional - unconditional)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
    if guidance == 1.0:
        assert len(cache.kv.keys_RSAD[0]) == len(found)  # half the work: no unconditional rows


def test_temperature_acts() -> None:
    """reports A9: hot draws differ from the likeliest codes, cold ones are those."""
    scale, outputs = raster_scale(network_of("t2i"), batch_invariant=True), reference("gpt_t2i_lo")
    condition, greedy = condition_of("t2i", outputs), outputs["greedy_cfg7.5_tokens"].long()
    cold = official_tokens(scale, condition, Sampling(guidance=7.5, temperature=1e-6), 3)
    hot = official_tokens(scale, condition, Sampling(guidance=7.5, temperature=5.0), 3)
    assert torch.equal(cold, greedy)
    assert not torch.equal(hot, greedy)
    assert len(hot.unique()) > 8


@pytest.mark.parametrize("kind", ["c2i", "t2i"])
def test_bfloat16_networks_keep_positions_and_logits_in_float32(kind: str) -> None:
    """docs/reports.md B2: what runs on a GPU, here on a CPU; near the official float32 logits."""
    network, path = meta_network(MODELS[kind], SIDE), reference_file(f"gpt_{kind}_lo.pt")
    fill(network, load_state(path), path.name, torch.bfloat16, ignorable=IGNORABLE)
    assert network.rotary_SD2 is not None
    assert (network.rotary_SD2.dtype, network.output.weight.dtype) == (torch.float32, torch.bfloat16)
    scale, outputs = raster_scale(network, batch_invariant=True), reference(f"gpt_{kind}_lo")
    cache = scale.start(condition_of(kind, outputs), 1.0)
    found = cached_logits(scale, cache, outputs["tf_tokens"].long(), [15])
    assert (cache.kv.keys_RSAD[0].dtype, found.dtype) == (torch.bfloat16, torch.float32)
    error = (found - outputs["tf_logits_cond"]).square().mean().sqrt() / outputs["tf_logits_cond"].std()
    assert error < 0.03
