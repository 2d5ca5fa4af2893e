"""AR-DTok against the outputs of the official code on a tiny model: logits, greedy and sampled tokens, pixels."""

import dataclasses

import pytest
import torch

from mulo_ray.decoding.sampling import Sampling, log_probabilities
from mulo_ray.models.checkpoint import fill
from mulo_ray.models.containers import load_state, read_container
from mulo_ray.models.raster import RasterScale
from mulo_ray.models.tar.config import CONFIGS, SemanticSizes
from mulo_ray.models.tar.network import TarNetwork, meta_network, raster_scale
from mulo_ray.models.vq_sizes import VQSizes
from tests.support.official import SETTINGS, cached_logits, official_tokens, reference, reference_file

SIDE = 4
CONFIG = dataclasses.replace(
    CONFIGS["tar-1.5b"],
    dim=32,
    layers=2,
    heads=2,
    vocab=128,
    vq=VQSizes(codes=128),
    semantic_sizes=SemanticSizes(hidden=12),
    semantic_sides=(3, 2),
)


def network_of(semantic_scale: int = 0, dtype: torch.dtype = torch.float32) -> TarNetwork:
    network = meta_network(dataclasses.replace(CONFIG, semantic_scale=semantic_scale), SIDE)
    path = reference_file("ar_dtok_lo.pth")
    fill(network, load_state(path), path.name, dtype)
    return network


def scale_of(*, batch_invariant: bool = True, semantic_scale: int = 0) -> RasterScale:
    return raster_scale(network_of(semantic_scale), batch_invariant=batch_invariant)


@pytest.mark.parametrize("chunks", [[1] * 15, [1, 3, 5, 6], [15]], ids=["one by one", "mixed", "at once"])
def test_logits_through_the_cache(chunks: list[int]) -> None:
    """Conditional ones, and unconditional ones as what guidance 0 leaves. The official table has 15 rows of them."""
    scale, outputs = scale_of(), reference("ar_dtok_lo")
    tokens = outputs["tf_tokens"].long()
    for guidance, name in ((1.0, "tf_logits_cond"), (0.0, "tf_logits_uncond")):
        cache = scale.start({"features_BPC": outputs["cond"]}, guidance)
        found = cached_logits(scale, cache, tokens, chunks)[:, : outputs[name].shape[1]]
        torch.testing.assert_close(found, outputs[name], atol=1e-4, rtol=0)


def test_logits_without_a_cache() -> None:
    network, outputs = network_of(), reference("ar_dtok_lo")
    found = network(network.prefix(outputs["cond"]), outputs["tf_tokens"].long())
    expected = outputs["tf_logits_cond"]
    torch.testing.assert_close(found[:, : expected.shape[1]], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize("guidance", [1.0, 4.0])
def test_greedy_tokens(guidance: float, invariant: bool) -> None:
    scale, outputs = scale_of(batch_invariant=invariant), reference("ar_dtok_lo")
    found = official_tokens(scale, {"features_BPC": outputs["cond"]}, Sampling(guidance=guidance), None)
    assert torch.equal(found, outputs[f"greedy_cfg{guidance:g}_tokens"].long())


def test_a_coarser_semantic_grid_uses_the_same_table_of_positions() -> None:
    """Four condition slots instead of nine: image cells start at place four of the table."""
    scale, outputs = scale_of(semantic_scale=1), reference("ar_dtok_lo")
    found = official_tokens(scale, {"features_BPC": outputs["cond_pooled"]}, Sampling(guidance=4.0), None)
    assert torch.equal(found, outputs["pooled_greedy_cfg4_tokens"].long())


@pytest.mark.parametrize("name", SETTINGS)
def test_sampled_tokens(name: str) -> None:
    """The same seed draws the same codes, filters and the interval of guidance included."""
    seed, sampling, until = SETTINGS[name]
    scale, outputs = scale_of(), reference("ar_dtok_lo")
    found = official_tokens(scale, {"features_BPC": outputs["cond"]}, sampling, seed, until)
    assert torch.equal(found, outputs[f"sample_{name}_tokens"].long())


def test_probabilities_after_the_filters() -> None:
    outputs = reference("ar_dtok_lo")
    _, sampling, _ = SETTINGS["cfg_topk_topp_temp"]
    scale = scale_of()
    cache = scale.start({"features_BPC": outputs["cond"]}, sampling.guidance)
    tokens = outputs["sample_cfg_topk_topp_temp_tokens"].long()
    found = log_probabilities(cached_logits(scale, cache, tokens, [15]).flatten(0, 1), sampling).exp()
    expected = outputs["sample_cfg_topk_topp_temp_probs"].flatten(0, 1)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("guidance", [0.0, 0.5, 1.0, 1.0001, 7.5])
def test_every_guidance_follows_the_formula(guidance: float) -> None:
    """docs/reports.md A9: 0 and 0.5 mean what they say; 1 does half the work."""
    scale, outputs = scale_of(), reference("ar_dtok_lo")
    cache = scale.start({"features_BPC": outputs["cond"]}, guidance)
    conditional, unconditional = outputs["tf_logits_cond"], outputs["tf_logits_uncond"]
    found = cached_logits(scale, cache, outputs["tf_tokens"].long(), [15])[:, : conditional.shape[1]]
    expected = unconditional + guidance * (conditional - unconditional)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
    if guidance == 1.0:
        assert len(cache.kv.keys_RSAD[0]) == len(found)


def test_temperature_acts() -> None:
    """reports A9: hot draws differ from the likeliest codes, cold ones are those."""
    scale, outputs = scale_of(), reference("ar_dtok_lo")
    condition, greedy = {"features_BPC": outputs["cond"]}, outputs["greedy_cfg4_tokens"].long()
    cold = official_tokens(scale, condition, Sampling(guidance=4.0, temperature=1e-6), 3)
    hot = official_tokens(scale, condition, Sampling(guidance=4.0, temperature=5.0), 3)
    assert torch.equal(cold, greedy)
    assert not torch.equal(hot, greedy)


def test_bfloat16_networks_give_logits_in_float32() -> None:
    """docs/reports.md B2: what runs on a GPU, here on a CPU; near the official float32 logits."""
    network, outputs = network_of(dtype=torch.bfloat16), reference("ar_dtok_lo")
    assert network.abs_pe.dtype == torch.bfloat16
    scale = raster_scale(network, batch_invariant=True)
    cache = scale.start({"features_BPC": outputs["cond"]}, 1.0)
    found = cached_logits(scale, cache, outputs["tf_tokens"].long(), [15])[:, :15]
    assert (cache.kv.keys_RSAD[0].dtype, found.dtype) == (torch.bfloat16, torch.float32)
    error = (found - outputs["tf_logits_cond"]).square().mean().sqrt() / outputs["tf_logits_cond"].std()
    assert error < 0.03


def test_a_picture_does_not_depend_on_its_company() -> None:
    """Two of three conditions, and one alone, bit for bit: nine slots are fewer rows than linear layers like."""
    scale, features = scale_of(), reference("ar_dtok_lo")["cond"]
    together = scale.start({"features_BPC": features}, 4.0).first_logits_BV
    for rows in ([0], [1, 2], [2]):
        assert torch.equal(scale.start({"features_BPC": features[rows]}, 4.0).first_logits_BV, together[rows])


def test_what_the_file_says_beside_its_tensors() -> None:
    container = read_container(reference_file("ar_dtok_lo.pth"))
    assert container.held_under == "model.sd"
    assert container.arguments["cls_token_num"] == CONFIG.trained_prefix
