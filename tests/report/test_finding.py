"""The first sentences of a comparison: which run is best, by how much, and against whom."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.report.finding import finding


def run(wait: float, jct: float | None, unfinished: int = 0) -> dict[str, Any]:
    """The part of a summary that a finding needs."""
    means = {"wait_seconds": {"mean": wait}, "jct_seconds": {"mean": jct}}
    return {**means, "unfinished": unfinished, "refused": 0}


def test_the_best_is_compared_with_the_first_and_the_next() -> None:
    assert finding(["fifo", "las", "mine"], [run(7200, 18_000), run(5400, 14_400), run(3600, 9000)]) == (
        "Jobs wait 2.00 times less under mine than under fifo: 1.00 h instead of 2.00 h on average. "
        "They finish 2.00 times sooner: 2.50 h instead of 5.00 h. "
        "The best of the others, las: 1.50 h of waiting, 4.00 h to the end."
    )


def test_longer_waits_are_not_hidden() -> None:
    assert finding(["fifo", "mine"], [run(600, 9000), run(1200, 7200)]) == (
        "Jobs finish 1.25 times sooner under mine than under fifo: 2.00 h instead of 2.50 h on average. "
        "They wait 20.0 min instead of 10.0 min."
    )


def test_no_difference_is_no_finding_of_one() -> None:
    said = finding(["fifo", "mine"], [run(600, 7200), run(500, 7190)])
    assert said == (
        "No run here finishes jobs clearly sooner than fifo: mean completion times are 2.00 h to 2.00 h."
    )


def test_runs_that_leave_jobs_out_are_not_compared() -> None:
    assert finding(["fifo", "mine"], [run(600, 7200), run(60, 720, unfinished=1)]) == ""
    assert finding(["fifo", "mine"], [run(600, 7200), run(0, None)]) == ""
    assert finding(["fifo"], [run(600, 7200)]) == ""


seconds = st.floats(1, 1e6)


@given(st.lists(st.tuples(seconds, seconds), min_size=2, max_size=6))
def test_only_the_shortest_mean_is_called_best(times: list[tuple[float, float]]) -> None:
    names = [f"s{at}" for at in range(len(times))]
    said = finding(names, [run(wait, wait + own) for wait, own in times])
    jcts = [wait + own for wait, own in times]
    best = jcts.index(min(jcts))
    assert f"under s{best} than under s0" in said or (
        jcts[0] < 1.01 * min(jcts) and said.startswith("No run")
    )
