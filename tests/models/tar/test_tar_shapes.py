"""Networks built from the families' configurations, at full size on the meta device, against the published files."""

import json

import pytest
import torch

from mulo_ray.models.catalog import read_card
from mulo_ray.models.checkpoint import parameter_count
from mulo_ray.models.plan import GIB, Load, main, role_plans
from mulo_ray.models.tar.config import CONFIGS
from mulo_ray.models.tar.network import meta_network
from tests.support.official import reference_file

FULL = CONFIGS["tar-7b"]


@pytest.mark.parametrize("px", [256, 512, 1024])
def test_keys_and_shapes(px: int) -> None:
    """The manifest lists the first of identical layers; its arguments are inferred."""
    entry = json.loads(reference_file("manifest.json").read_text())[f"{FULL.scales[px]} (INFERRED args)"]
    table = {}
    for key, shape in entry["keys"].items():
        layers = range(entry["n_layer"]) if key.startswith("layers.0.") else [0]
        table |= {key.replace("layers.0.", f"layers.{layer}."): shape for layer in layers}
    network = meta_network(FULL, FULL.side(px))
    assert {key: list(value.shape) for key, value in network.state_dict().items()} == table
    arguments = entry["args"]
    assert (FULL.trained_prefix, FULL.semantic_sizes.hidden) == (arguments["cls_token_num"], arguments["cond_dim"])
    assert (FULL.side(px) ** 2, FULL.vocab) == (arguments["max_seq_len"], arguments["vocab_size"])
    assert parameter_count(network) == entry["params"] == FULL.scale_parameters(px)


def test_the_language_models_have_the_published_sizes() -> None:
    """1.5 and 7.6 thousand million numbers before the words of pictures; counted, not only computed."""
    import transformers

    for name, billions in (("tar-1.5b", 1.544), ("tar-7b", 7.616)):
        config = CONFIGS[name]
        sizes = config.language_sizes
        assert sizes.parameters(151_936 if sizes.tied else 152_064) / 1e9 == pytest.approx(billions, abs=0.001)
        with torch.device("meta"):
            model = transformers.Qwen2ForCausalLM(
                transformers.Qwen2Config(
                    vocab_size=config.vocabulary,
                    hidden_size=sizes.hidden,
                    intermediate_size=sizes.ffn,
                    num_hidden_layers=sizes.layers,
                    num_attention_heads=sizes.heads,
                    num_key_value_heads=sizes.kv_heads,
                    tie_word_embeddings=sizes.tied,
                )
            )
        assert sum(value.numel() for value in model.parameters()) == sizes.parameters(config.vocabulary)
    assert CONFIGS["tar-7b"].vocabulary == 151_670 + 65_536


@pytest.mark.parametrize(("px", "gigabytes"), [(256, 0.30), (512, 0.54), (1024, 1.48)])
def test_caches_are_as_large_as_published_arithmetic_says(px: int, gigabytes: float) -> None:
    """bfloat16 with guidance: 0.307 MB per token."""
    scale = FULL.memory().scales[px]
    assert scale.slots == 729 + (px // 16) ** 2
    assert scale.kv_bytes(2) / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert scale.kv_bytes(2) / scale.slots / 1e6 == pytest.approx(0.307, abs=0.0005)


def test_the_plan_of_the_largest_pair(capsys: pytest.CaptureFixture[str]) -> None:
    """The drafter of a target named alone is the family's 256 px; the language model is a stage of its own."""
    assert main(["--family", "tar-7b", "--target-px", "1024", "--gpu-memory", "80GiB", "--batch-size", "4"]) == 0
    out = capsys.readouterr().out
    assert "keys and values 1.48 GB per image" in out
    assert "keys and values 0.30 GB per image" in out
    assert "language model: weights 15.05" in out
    assert main(["--family", "tar-7b", "--target-px", "1024", "--gpu-memory", "16GiB"]) == 1
    assert "the language model needs about 17.01 GiB" in capsys.readouterr().err
    assert main(["--family", "tar-7b", "--target-px", "1024", "--gpu-memory", "24GiB"]) == 1
    assert "--batch-size" in capsys.readouterr().err
    load = Load(drafter_px=512, target_px=1024, batch=4)
    drafter, target, language = role_plans(read_card("tar-1.5b", "random"), load, "cuda")
    assert drafter.kv / 1e9 == pytest.approx(0.54, abs=0.005)
    assert target.weights == drafter.weights + 2 * 1280 * (4096 - 1024)
    assert 3 * GIB < language.weights < 3.3 * GIB
