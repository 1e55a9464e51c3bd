"""What readings of other machines' clocks say of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.service.engines.clocks import MachineClocks


@given(
    ahead=st.integers(-4000, 4000),
    readings=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.floats(0, 10)), min_size=1, max_size=9),
    step=st.sampled_from([0.0, 1.0]),
)
def test_no_difference_is_named_that_readings_do_not_show(
    ahead: int, readings: list[tuple[float, float, float]], step: float
) -> None:
    """Each reading is taken at a moment between a question and its answer, which the reader does not know."""
    now = 1e6
    clocks = MachineClocks(lambda: now, lambda: now)
    widths = []
    for before, after, passed in readings:
        asked = now + passed
        read, now = asked + before, asked + before + after
        shown = (read + ahead) // step * step if step else read + ahead
        clocks.note("other", shown, asked, step)
        widths.append(before + after + step)
    found = clocks.ahead("other")
    rounding = 0.051
    assert abs(found) <= abs(ahead) + rounding
    assert abs(ahead) - abs(found) <= min(widths) + rounding
    assert clocks.here("other", 5e5) == pytest.approx(5e5 - found)
    latest = clocks.at_the_latest("other", 5e5)
    assert -1e-6 <= latest - (5e5 - ahead) <= min(widths) + 1e-6


def test_a_clock_that_was_set_is_read_again() -> None:
    clocks = MachineClocks(lambda: 1000.0, lambda: 0.0)
    clocks.note("other", 1600.0, 1000.0)
    assert clocks.differences() == {"other": 600.0}
    clocks.note("other", 1000.0, 1000.0)
    assert clocks.differences() == {"other": 0.0}


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_where_the_own_clock_is_set_others_differ_by_as_much(by: float) -> None:
    """Of those that were not read since, too; one that was set with it shows that when it is read."""
    now = 1000.0
    clocks = MachineClocks(lambda: now, lambda: 0.0)
    for name, ahead in (("read", 5.0), ("away", 7.0), ("same", 0.0)):
        clocks.note(name, now + ahead, now)
    was_set = [clocks.was_set]
    now += by
    was_set.append(clocks.was_set)
    clocks.note("read", 1005.0, now)
    clocks.note("same", now, now)
    assert [*was_set, clocks.was_set] == [False, True, False]
    assert clocks.differences() == {"read": 5.0 - by, "away": 7.0 - by, "same": 0.0}


def test_a_clock_that_was_not_read_counts_as_right() -> None:
    clocks = MachineClocks()
    assert clocks.here("other", 7.0) == 7.0
    clocks.note("gone", 0.0, 1000.0)
    clocks.keep(["other"])
    assert clocks.differences() == {}
