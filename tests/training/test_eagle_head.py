"""The EAGLE head as a stage of training: its loss falls, it is published, loads, and drafts exactly."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import save_file

from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.interfaces import Request, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.decoding.tree_drafts import TreeOptions
from mulo_ray.decoding.trees import TreeTarget
from mulo_ray.models.catalog import read_card
from mulo_ray.models.emoji.network import default_sizes
from mulo_ray.models.family import load_family
from mulo_ray.models.text import condition_ids
from mulo_ray.models.vq import VQ
from mulo_ray.training.checkpoints import Checkpoint
from mulo_ray.training.eagle import EagleStage
from mulo_ray.training.loop import train
from mulo_ray.training.pictures import Record
from mulo_ray.training.publish import _write
from mulo_ray.training.scales import ScaleStage
from mulo_ray.training.stages import Share
from mulo_ray.training.tokens import TokenSet

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def stage():
    """A 32 px scale, briefly trained on sixteen grids, and its head."""
    torch.manual_seed(0)
    grids = torch.randint(0, 1024, (16, 16), dtype=torch.int16)
    records = [Record(key=str(i), name=f"thing {i}", style="noto") for i in range(16)]
    scale = ScaleStage(32, TokenSet(plain=grids, mirror=grids), records, VQ(), batch=8)
    for step in range(30):
        for optimizer in scale.optimizers:
            optimizer.zero_grad()
        scale.loss(step, Share()).loss.backward()
        for optimizer in scale.optimizers:
            optimizer.step()
    scale.average.load(scale.network.state_dict(), 0)
    return EagleStage(32, scale, lr=3e-3)


def test_the_head_learns_is_kept_and_drafts_exactly(stage, tmp_path):
    """Fifty steps: both losses fall, the scale stays as it was; the published head makes `eagle2` equal `ar`."""
    before, frozen = stage.evaluate(), [p.clone() for p in stage._model.parameters()]
    train(stage, Checkpoint(tmp_path, stage.name), steps=50)
    after = stage.evaluate()
    assert after["held_out_token_loss"] < before["held_out_token_loss"]
    assert after["held_out_hidden_loss"] < before["held_out_hidden_loss"]
    assert all(torch.equal(a, b) for a, b in zip(frozen, stage._model.parameters(), strict=True))

    from mulo_ray.training.folders import Folder

    folder = tmp_path / "family"
    folder.mkdir()
    entry = _write(Folder(str(tmp_path)), stage.name, folder, {})
    assert entry["file"] == "head-32.safetensors"
    assert entry["steps"] == 50
    for name, network in (("tokenizer", stage._scale._vq), ("scale-32", stage._model)):
        save_file({k: v.contiguous().clone() for k, v in network.state_dict().items()}, folder / f"{name}.safetensors")
    (folder / "words.txt").write_text("thing\n")
    card = {
        "tokenizer": {"file": "tokenizer.safetensors"},
        "scales": {"32": {"file": "scale-32.safetensors", "side": 4, "sizes": dataclasses.asdict(default_sizes(32))}},
        "heads": {"32": entry},
        "default_pair": [32, 32],
        "defaults": {},
    }
    (folder / "family.json").write_text(json.dumps(card))
    family = load_family(read_card("emoji", str(folder)), "cpu")
    scale, sampling = family.scale(32, batch_invariant=True), Sampling(guidance=1.5, temperature=0.7)
    head = family.head(32, scale, batch_invariant=True)
    request = Request(condition={"ids_BPG": condition_ids(["thing", "noto thing"])}, seeds_B=torch.tensor([1, 2]))
    drafted = generate(TreeTarget(scale, head, sampling, TreeOptions(depth=3, top_k=4, nodes=10)), None, request)
    plain = generate(AutoregressiveTarget(scale, sampling), None, request)
    assert torch.equal(drafted.tokens_BHW, plain.tokens_BHW)
