"""The memory plan: published figures, what fits, what is refused and with which advice."""

import dataclasses

import pytest

from mulo_ray.errors import PlacementError, UsageError
from mulo_ray.models import device_memory
from mulo_ray.models.catalog import read_card
from mulo_ray.models.plan import GIB, Load, main, parse_bytes, plan_lines, refusal, role_plans

LOAD = Load(drafter_px=256, target_px=512, batch=8, in_flight=3)


def test_the_plan_of_the_text_conditional_pair() -> None:
    """777.7 M parameters in bfloat16 per role; 0.42 GB of keys and values per image at 512 px."""
    drafter, target, text = role_plans(read_card("llamagen-t2i-xl", "random"), LOAD, "cuda")
    assert drafter.weights == target.weights == 2 * 777_923_840
    assert target.kv / 1e9 == pytest.approx(0.42, abs=0.005)
    assert drafter.kv / 1e9 == pytest.approx(0.369e-3 * (120 + 256), abs=0.001)
    assert (text.name, text.kv) == ("T5 encoder", 0)
    assert target.fixed > drafter.fixed  # the tokenizer lives beside the target


def test_the_largest_batch_is_the_largest_that_is_not_refused() -> None:
    plans = role_plans(read_card("llamagen-t2i-xl", "random"), LOAD, "cuda")
    largest = plans[1].largest_batch(24 * GIB, 3)
    assert largest >= 1
    assert not refusal(plans, dataclasses.replace(LOAD, batch=largest), 24 * GIB)
    assert f"--batch-size {largest} fits" in refusal(plans, dataclasses.replace(LOAD, batch=largest + 1), 24 * GIB)


def test_what_helps_is_said() -> None:
    plans = role_plans(read_card("llamagen-t2i-xl", "random"), LOAD, "cuda")
    assert "the target needs about" in refusal(plans, LOAD, 6 * GIB)
    assert "it needs a larger device" in refusal(plans, LOAD, 2 * GIB)
    only_alone = plans[1].total(1, 1) + 1
    assert "--in-flight 1 with --batch-size 1 fits" in refusal(plans[1:2], LOAD, only_alone)


def test_the_advice_fits_every_role() -> None:
    """The drafter alone would take a batch of six; the target takes none at all, nor does the language model."""
    card = read_card("tar-7b", "random")
    plans = role_plans(card, dataclasses.replace(LOAD, drafter_px=256, target_px=1024), "cuda")
    assert len([plan for plan in plans if plan.total(LOAD.batch, LOAD.in_flight) > 8 * GIB]) == 3
    assert not refusal(plans, LOAD, 8 * GIB).startswith("the drafter")
    assert refusal(plans, LOAD, 8 * GIB).endswith("it needs a larger device")


def test_guidance_off_halves_the_cache_and_plain_decoding_needs_no_drafter() -> None:
    card = read_card("llamagen-t2i-xl", "random")
    [target, _] = role_plans(card, Load(drafter_px=None, target_px=512, decoder="ar", guided=False), "cuda")
    [_, guided, _] = role_plans(card, LOAD, "cuda")
    assert 2 * target.kv == guided.kv
    assert target.work < guided.work / 100
    assert role_plans(card, LOAD, "cpu")[1].weights == 2 * guided.weights


def test_what_a_rival_adds_to_the_target() -> None:
    """`speculative` keeps the drafter's weights, on the target's grid, beside the target; a draft head is a layer."""
    card = read_card("llamagen-t2i-xl", "random")
    alone = dataclasses.replace(LOAD, drafter_px=None, decoder="zipar")
    plain = role_plans(card, alone, "cuda")[0]
    [chain, _] = role_plans(card, dataclasses.replace(LOAD, decoder="speculative"), "cuda")
    assert (chain.name, chain.weights, chain.kv) == ("target", 2 * plain.weights, 2 * plain.kv)
    [tree, _] = role_plans(card, dataclasses.replace(alone, decoder="eagle2"), "cuda")
    assert 1.02 < tree.weights / plain.weights < 1.1
    assert tree.kv == plain.kv * 37 // 36


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--family", "llamagen-t2i-xl", "--gpu-memory", "24GiB"]) == 0
    out = capsys.readouterr().out
    assert "target: weights 1.45 GiB, keys and values 0.42 GB per image" in out
    assert "largest batch" in out
    assert main(["--family", "llamagen-t2i-xl", "--gpu-memory", "4GiB"]) == 1
    assert main(["--family", "llamagen-t2i-xl", "--target-px", "300"]) == 2
    assert main(["--family", "llamagen-c2i-b"]) == 2
    assert "use --decoder ar" in capsys.readouterr().err
    assert main(["--family", "emoji"]) == 2
    assert "needs no memory plan" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "size"), [("80GiB", 80 * GIB), ("24 GB", 24 * 10**9), ("1.5", int(1.5 * GIB))])
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="such as 80GiB"):
        parse_bytes("plenty")


def test_a_role_that_does_not_fit_is_refused_where_it_would_load(monkeypatch: pytest.MonkeyPatch) -> None:
    card = read_card("llamagen-t2i-xl", "random")
    monkeypatch.setattr(device_memory, "free_memory", lambda device: 4 * GIB)
    with pytest.raises(PlacementError, match="the target needs about"):
        device_memory.refuse_what_cannot_fit(card, "target", LOAD, "cpu")
    device_memory.refuse_what_cannot_fit(read_card("emoji"), "target", Load(drafter_px=32, target_px=64), "cpu")


def test_this_machine_says_how_much_it_has() -> None:
    free = device_memory.free_memory("cpu")
    assert free is None or free > 2**20


def test_a_line_per_role() -> None:
    plans = role_plans(read_card("llamagen-t2i-xl", "random"), LOAD, "cuda")
    lines = plan_lines(plans, LOAD, "cuda", None)
    assert len(lines) == 1 + len(plans)
    assert "largest" not in "".join(lines)
    assert lines[0].endswith("networks in bfloat16:")
