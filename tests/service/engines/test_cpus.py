"""Which CPUs starts run on: whole ones alone, as long as no more is granted than there is."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.service.engines.local.cpus import assign_cpus

GRANTS = st.dictionaries(st.integers(0, 9), st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]), max_size=8)


@settings(deadline=None)
@given(count=st.integers(1, 12), steps=st.lists(GRANTS, min_size=1, max_size=5))
def test_whole_grants_are_alone_and_stay_where_they_are(count: int, steps: list[dict[int, float]]) -> None:
    cpus = range(4, 4 + count)
    held: dict[int, tuple[int, ...]] = {}
    for grants in steps:
        assigned = assign_cpus(cpus, grants, held)
        assert assigned.keys() == grants.keys()
        for key, one in assigned.items():
            assert one.cpus
            assert set(one.cpus) <= set(cpus)
            assert list(one.cpus) == sorted(set(one.cpus))
            if one.alone:
                assert len(one.cpus) == grants[key]
        alone = {key: set(one.cpus) for key, one in assigned.items() if one.alone}
        for these, those in combinations(alone.values(), 2):
            assert not these & those
        used = set().union(*alone.values())
        for key, one in assigned.items():
            if not one.alone and used != set(cpus):
                assert set(one.cpus) == set(cpus) - used, key
        if sum(grants.values()) <= count:
            assert alone.keys() == {key for key, grant in grants.items() if grant.is_integer()}
        for key in alone.keys() & held.keys():
            # As many of those that it had as it may still have.
            assert len(alone[key] & set(held[key])) == min(len(held[key]), len(alone[key]))
        held = {key: one.cpus for key, one in assigned.items() if one.alone}


def test_the_same_grants_get_the_same_cpus() -> None:
    grants = {"a": 2.0, "b": 0.5, "c": 1.0, "d": 1.5}
    assigned = assign_cpus(range(6), grants, {})
    assert {key: one.cpus for key, one in assigned.items()} == {
        "a": (0, 1),
        "b": (3, 4, 5),
        "c": (2,),
        "d": (3, 4, 5),
    }
