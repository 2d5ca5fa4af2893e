"""Networks built from the families' configurations, at full size on the meta device, against the published files."""

import json

import pytest

from mulo_ray.models.checkpoint import parameter_count
from mulo_ray.models.llamagen.config import CONFIGS
from mulo_ray.models.llamagen.network import meta_network
from tests.support.official import reference_file

FILES = {files.weights: (name, px) for name, config in CONFIGS.items() for px, files in config.scales.items()}


def table_of(file: str) -> dict[str, list[int]]:
    """Key -> shape with every layer written out: the manifest lists the first of identical ones."""
    entry = json.loads(reference_file("manifest.json").read_text())[file]
    table = {}
    for key, shape in entry["keys"].items():
        layers = range(entry["n_layer"]) if key.startswith("layers.0.") else [0]
        table |= {key.replace("layers.0.", f"layers.{layer}."): shape for layer in layers}
    return table


@pytest.mark.parametrize(
    "file",
    [
        "c2i_B_256.pt",
        "c2i_L_256.pt",
        "c2i_XL_384.pt",
        "c2i_XXL_384.pt",
        "c2i_3B_384.pt",
        "t2i_XL_stage1_256.pt",
        "t2i_XL_stage2_512.pt",
    ],
)
def test_keys_and_shapes(file: str) -> None:
    name, px = FILES[file]
    config = CONFIGS[name]
    network = meta_network(config, config.side(px))
    assert {key: list(value.shape) for key, value in network.state_dict().items()} == table_of(file)
    entry = json.loads(reference_file("manifest.json").read_text())[file]
    assert (network.config.head_dim, network.config.side**2) == (entry["head_dim"], entry["block_size"])
    assert sum(value.numel() for value in network.parameters()) == entry["params"]
    assert parameter_count(network) == config.memory().scales[px].parameters


def test_the_text_conditional_files_have_258_keys() -> None:
    config = CONFIGS["llamagen-t2i-xl"]
    assert len(meta_network(config, 32).state_dict()) == 258


@pytest.mark.parametrize(("px", "gigabytes"), [(512, 0.42)])
def test_caches_are_as_large_as_published_arithmetic_says(px: int, gigabytes: float) -> None:
    """bfloat16 with guidance: 0.369 MB per token."""
    scale = CONFIGS["llamagen-t2i-xl"].memory().scales[px]
    assert scale.kv_bytes(2) / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert scale.kv_bytes(2) / scale.slots / 1e6 == pytest.approx(0.369, abs=0.0005)
