"""Object names: one-to-one, safe on every disk and store (docs/reports.md C2, C7)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulo_ray.storage import key_of, object_name


@given(st.text(min_size=1, max_size=400), st.integers(0, 10**6))
def test_every_key_has_a_safe_short_name_that_leads_back(key: str, sample: int) -> None:
    name = object_name(key, sample)
    assert re.fullmatch(r"images/[a-z0-9_][a-z0-9_-]*-\d+\.png", name)
    assert len(name) < 200
    assert key_of(name) == (key, sample) or (key_of(name) is None and "_h" in name)


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_keys_differ_on_disks_without_case(one: str, other: str) -> None:
    assert (object_name(one, 0).lower() == object_name(other, 0).lower()) == (one == other)


def test_examples() -> None:
    assert object_name("000000391895", 0) == "images/000000391895-0.png"
    assert object_name("a", 3, "webp") == "images/a-3.webp"
    assert object_name("A", 0) == "images/_41-0.png"
    assert object_name("../x", 0) == "images/_2e_2e_2fx-0.png"
    assert object_name("-rf", 0) == "images/_2drf-0.png"
    assert len({object_name("x" * 500 + end, 0) for end in "abc"}) == 3
    assert len({object_name("\U0001f98a" * 80 + end, 0) for end in "abc"}) == 3
    assert key_of("images/foreign.png") is None
    assert key_of("ledger/part.parquet") is None
    with pytest.raises(ValueError, match="empty prompt key"):
        object_name("", 0)
