"""How many calls may be held, and whose: by hand, and whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.core.errors import InvalidTransition
from agentix.gateway.fit import Needs
from agentix.gateway.held import Held
from agentix.gateway.place import Place


def place(tenant: str = "", num_bytes: int = 0, asleep: str = "") -> Place:
    return Place(
        key="k",
        program_id="p",
        tenant=tenant,
        needs=Needs(),
        engine_id="e",
        engine_ids=("e",),
        tokens=0,
        arrived_s=0.0,
        num_bytes=num_bytes,
        asleep=asleep,
    )


def fill(held: Held, tenant: str, num_bytes: int = 0, *, asleep: bool = False) -> int:
    """Add calls of the tenant for as long as there is room; gives how many."""
    num = 0
    while held.has_room(tenant, num_bytes, asleep=asleep):
        held.add(place(tenant, num_bytes, "paused" if asleep else ""))
        num += 1
    return num


def test_without_tenants_all_the_room_is_anybodys() -> None:
    held = Held(5, 100)
    assert fill(held, "") == 5
    held.remove(place())
    assert held.has_room("", 100, asleep=False)
    assert not held.has_room("", 101, asleep=False)


def test_a_tenant_leaves_as_much_as_it_takes() -> None:
    held = Held(100, 10**9)
    assert fill(held, "a") == 50
    assert fill(held, "b") == 25
    assert fill(held, "c") == 13  # of 25 that are free: the thirteenth leaves twelve
    held = Held(1, 10)
    assert fill(held, "a", 10) == 1, "the last place is for whoever comes first"


def test_bodies_have_a_bound_of_their_own() -> None:
    held = Held(1000, 100)
    assert fill(held, "a", 10) == 5
    assert held.has_room("b", 50, asleep=False)
    assert not held.has_room("b", 51, asleep=False)
    assert held.has_room("a", 0, asleep=False)


def test_calls_that_sleep_take_no_place_in_line() -> None:
    held = Held(10, 100)
    assert fill(held, "", 1, asleep=True) == 10
    assert fill(held, "", 1) == 10
    held = Held(10, 100)
    assert fill(held, "a", 10, asleep=True) == 5, "but their bodies do count"
    assert fill(held, "b", 10) == 3  # of the 50 bytes that are free: the third leaves 20


def test_a_miscount_is_found() -> None:
    held = Held(10, 100)
    held.add(place("a", 3))
    held.validate([place("a", 3)])
    for wrong in ([], [place("a", 4)], [place("b", 3)], [place("a", 3, "paused")]):
        with pytest.raises(InvalidTransition, match="miscounted"):
            held.validate(wrong)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.booleans(), st.booleans()), max_size=80),
    st.integers(0, 12),
    st.integers(0, 100),
)
def test_bounds_hold_and_nobody_shuts_the_others_out(
    steps: list[tuple[str, int, bool, bool]], max_calls: int, max_bytes: int
) -> None:
    held, inside = Held(max_calls, max_bytes), list[Place]()
    for tenant, num_bytes, asleep, leaves in steps:
        if leaves and inside:
            held.remove(inside.pop(num_bytes % len(inside)))
        elif held.has_room(tenant, num_bytes, asleep=asleep):
            inside.append(place(tenant, num_bytes, "paused" if asleep else ""))
            held.add(inside[-1])
        held.validate(inside)
        assert sum(p.num_bytes for p in inside) <= max_bytes
        for kind in (False, True):
            num_calls = sum(bool(p.asleep) is kind for p in inside)
            assert num_calls <= max_calls
        of_others = [p for p in inside if p.tenant != "a"]
        if not of_others and max_calls >= 2:
            assert held.has_room("d", 0, asleep=False), "one tenant alone leaves room for another"
