"""Rounds, pairs and resume of a comparison, on tiny random models and a store in a folder."""

from pathlib import Path

import pytest
import torch

from mulo_ray.bench.kept import Kept
from mulo_ray.bench.quality import Likelihood
from mulo_ray.bench.results import row
from mulo_ray.bench.settings import Setting, parse
from mulo_ray.bench.timing import rounds_of, time_group
from mulo_ray.config import JobConfig
from mulo_ray.decoding.autoregressive import AutoregressiveTarget
from mulo_ray.decoding.interfaces import Generation, Request, generate
from mulo_ray.decoding.sampling import Sampling
from mulo_ray.models.catalog import read_card
from mulo_ray.models.family import load_family
from mulo_ray.storage import Store
from mulo_ray.types import Prompt
from tests.support.tiny import request, tiny

PROMPTS = [Prompt(key=str(i), text="a cat") for i in range(4)]


class TinyContender:
    """A setting's name on tiny models."""

    def __init__(self, text: str) -> None:
        self.setting: Setting = parse(text, JobConfig(), read_card("emoji"))
        sampling, pair = Sampling(guidance=2.0), tiny()
        plain = self.setting.decoder == "ar"
        self._target = AutoregressiveTarget(pair.scale("high"), sampling) if plain else pair.target(sampling)
        self._drafter = None if plain else pair.drafter(sampling)
        self.decoded = 0

    def request(self, prompts: list[Prompt]) -> Request:
        return request(len(prompts), first=int(prompts[0].key))

    def decode(self, req: Request) -> Generation:
        self.decoded += 1
        return generate(self._target, self._drafter, req)


def test_a_batch_size_takes_all_captions_and_enough_pairs() -> None:
    assert [rounds_of(32, batch) for batch in (1, 4, 8, 16, 32)] == [32, 8, 8, 6, 6]
    assert rounds_of(7, 4) == 6, "what does not fill a micro-batch is left out"


def test_a_killed_comparison_goes_on_and_pairs_what_it_adds_with_a_new_yardstick(tmp_path: Path) -> None:
    kept = Kept(Store(str(tmp_path)))
    ar, mulo = TinyContender("ar"), TinyContender("mulo")
    said: list[str] = []

    def stop_at_the_fourth(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_group(ar, [ar, mulo], PROMPTS, 2, kept, stop_at_the_fourth)
    assert len(kept.cell(mulo.setting, 2).rounds) == 3
    time_group(ar, [ar, mulo], PROMPTS, 2, kept, said.append)
    assert (ar.decoded, mulo.decoded) == (6, 6), "no round twice"
    time_group(ar, [ar, mulo], PROMPTS, 2, kept, said.append)
    assert len(said) == 4 + 3, "nothing left"
    late = TinyContender("mulo s=4")
    time_group(ar, [ar, mulo, late], PROMPTS, 2, kept, said.append)
    assert (ar.decoded, mulo.decoded, late.decoded) == (12, 6, 6)
    cell = kept.cell(mulo.setting, 2)
    assert cell.images == 12
    assert cell.rejected is not None
    assert cell.rejected.sum() == pytest.approx(sum(2 * one["stats"]["rejected"] for one in cell.rounds.values()))
    assert kept.cell(ar.setting, 2).rejected is None


def test_a_row_is_the_median_of_pairs(tmp_path: Path) -> None:
    kept = Kept(Store(str(tmp_path)))
    mulo = TinyContender("mulo")
    time_group(mulo, [mulo], PROMPTS, 4, kept, lambda line: None)
    cell = kept.cell(mulo.setting, 4)
    for number, (own, yardstick) in enumerate([(1, 2), (1, 4), (10, 30), (2, 2), (5, 10), (1, 9)]):
        cell.rounds[number] |= {"seconds": own, "yardstick": yardstick}
    kept.put_cell(mulo.setting, 4, cell)
    found = row(kept, mulo.setting, 4, None, None)
    assert found.speedup_vs_ar == 2.5, "of the ratios 2, 4, 3, 1, 2 and 9; the ratio of medians would be 6"
    assert (found.seconds_per_image, found.images_per_s) == (1.5, 1 / 1.5)
    assert (found.n, found.nll, found.fd, found.judge_top5) == (0, None, None, None)
    assert found.forwards_target == pytest.approx(2 + found.depth)
    assert found.accepted is not None
    assert found.accepted + cell.rounds[0]["stats"]["rejected"] == 64


@torch.inference_mode()
def test_likelihoods_are_those_of_teacher_forcing_without_a_cache() -> None:
    card = read_card("emoji")
    setting = parse("ar", JobConfig(), card)
    family = load_family(card, "cpu")
    scale = family.scale(128, batch_invariant=False)
    condition = family.condition(["a red apple", "a cat"])
    tokens = torch.randint(0, 1000, (2, 16, 16), generator=torch.Generator().manual_seed(0))
    req = Request(condition=condition, seeds_B=torch.tensor([1, 2]))
    found = Likelihood(setting.config, card, "cpu").nats_B(req, tokens)
    conditional = scale.body(scale._prefix(condition), tokens.flatten(1))
    free = scale.body(scale._unconditional().expand(2, -1, -1), tokens.flatten(1))
    guidance = setting.config.sampling.guidance
    logp = (free + guidance * (conditional - free)).log_softmax(-1)
    expected = -logp.gather(2, tokens.flatten(1)[..., None])[..., 0].mean(1)
    assert torch.allclose(found, expected, atol=1e-3)
    assert float(found.mean()) > 3, "random tokens are unlikely"
