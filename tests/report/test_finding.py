"""The first sentences of a comparison: which run is best, by how much, and against whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.report.finding import finding
from muster.report.metrics import NOT_COMPLETED


def run(
    wait: float, jct: float | None, tenants: Sequence[float] = (), makespan: float = 1.0
) -> dict[str, Any]:
    """The part of a summary that a finding needs."""
    means = {"wait_seconds": {"mean": wait}, "jct_seconds": {"mean": jct}}
    of_tenants = [{"tenant": f"t{at}", "jct_seconds": {"mean": mean}} for at, mean in enumerate(tenants)]
    return {
        **means,
        "jobs": 3,
        **dict.fromkeys(NOT_COMPLETED, 0),
        "tenants": of_tenants,
        "makespan_seconds": makespan,
        "cluster": "now",
        "scheduler": "any",
    }


def test_the_best_is_compared_with_the_first_and_the_next() -> None:
    assert finding(["fifo", "las", "mine"], [run(7200, 18_000), run(5400, 14_400), run(3600, 9000)]) == (
        "mine shortens the mean wait from 2.00 h to 1.00 h (−50 %) and the mean completion time from 5.00 h to 2.50 h "
        "(−50 %); makespan unchanged. "
        "The best of the others, las: 1.50 h of waiting, 4.00 h to the end."
    )


def test_cluster_and_scheduler_are_distinguished() -> None:
    figures = (run(7200, 18_000), run(5400, 14_400), run(6000, 15_000), run(3600, 9000))
    kinds = [(cluster, scheduler) for cluster in ("now", "more") for scheduler in ("fifo", "las")]
    runs = [
        one | {"cluster": cluster, "scheduler": scheduler}
        for one, (cluster, scheduler) in zip(figures, kinds, strict=True)
    ]
    names = [f"{scheduler} on {cluster}" for cluster, scheduler in kinds]
    assert finding(names, runs).endswith(
        " The cluster alone, fifo on more: 1.67 h of waiting, 4.17 h to the end."
        " The scheduler alone, las on now: 1.50 h of waiting, 4.00 h to the end."
    )
    same = [one | {"cluster": "now"} for one in runs]
    assert "alone" not in finding(names, same)
    assert "The best of the others, las on now" in finding(names, same)


def test_longer_waits_are_not_hidden() -> None:
    assert finding(["fifo", "mine"], [run(600, 9000), run(1200, 7200)]) == (
        "mine shortens the mean completion time from 2.50 h to 2.00 h (−20 %); the mean wait grows from 10.0 min to "
        "20.0 min (+100 %); makespan unchanged."
    )


def test_tenants_that_lose_and_a_longer_makespan_are_said() -> None:
    first = run(100, 9000, tenants=[100, 100, 100, 100], makespan=36_000)
    best = run(100, 7200, tenants=[50, 50, 100, 200], makespan=72_000)
    assert finding(["fifo", "mine"], [first, best]) == (
        "mine shortens the mean completion time from 2.50 h to 2.00 h (−20 %); the mean wait stays at 1.67 min; "
        "2 of 4 tenants gain and 1 loses; makespan from 10.0 h to 20.0 h (+100 %)."
    )


def test_no_difference_is_no_finding_of_one() -> None:
    said = finding(["fifo", "mine"], [run(600, 7200), run(500, 7190)])
    assert said == (
        "No run here finishes jobs clearly sooner than fifo: mean completion times are all 2.00 h."
    )


def test_runs_that_leave_jobs_out_are_not_compared() -> None:
    for of_others in (*({kind: 1} for kind in NOT_COMPLETED), {"jobs": 2}):
        assert finding(["fifo", "mine"], [run(600, 7200), run(60, 720) | of_others]) == "", of_others
    both = [one | {"refused": 1} for one in (run(600, 7200), run(60, 720))]
    assert finding(["fifo", "mine"], both).startswith("mine shortens")
    assert finding(["fifo", "mine"], [run(600, 7200), run(0, None)]) == ""
    assert finding(["fifo"], [run(600, 7200)]) == ""


seconds = st.floats(1, 1e6)


@given(st.lists(st.tuples(seconds, seconds), min_size=2, max_size=6))
def test_only_the_shortest_mean_is_called_best(times: list[tuple[float, float]]) -> None:
    names = [f"s{at}" for at in range(len(times))]
    said = finding(names, [run(wait, wait + own) for wait, own in times])
    jcts = [wait + own for wait, own in times]
    best = jcts.index(min(jcts))
    assert said.startswith(f"s{best} shortens") or (jcts[0] < 1.01 * min(jcts) and said.startswith("No run"))
