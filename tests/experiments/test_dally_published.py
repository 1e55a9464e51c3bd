"""Dally's rules as published: blocks, offers and places by hand; the authors' inputs beside their program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.papers.dally.same_input import SCALES, twins
from experiments.published.dally_efficiency import published_efficiency, rows_of_layers
from experiments.published.job_groups import samples_after_groups
from muster.cluster import Cluster, Node
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.placement.delay_scheduling import MACHINE
from muster.schedulers.placement.delay_timers import DelayTimers
from muster.schedulers.placement.published_order import hash_order
from muster.schedulers.registry import build
from muster.simulation import Failures, Options, rules_named
from muster.simulation.simulate import Run
from muster.speed.network.layers import read_layers
from muster.speed.network.tree import link_tree
from muster.workload.trace import Trace
from tests.building import column, finishes, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, LINKS, gang
from tests.schedulers.test_dally_timers import LEASE, racked

# Blocks, offers and places, by hand


def in_blocks(*rows: dict[str, Any], sample_seconds: Any) -> Trace:
    trace = jobs_of(*rows)
    reply = pl.Series("time_per_iteration_s", [sample_seconds] * len(rows))
    return replace(trace, jobs=trace.jobs.with_columns(reply))


def published(trace: Trace, cluster: Cluster, name: str, **given: str) -> Run:
    rules = rules_named("dally-published")
    return run(trace, cluster, name, {**rules.settings_for(name), **LEASE, **given}, rules=rules)


@pytest.mark.parametrize(
    ("gpus", "held", "done"),
    [
        # A block takes 30 s and 255 s of work are nine. At 90 s another 30 / 2 s would outlast the lease of 100 s:
        # the lease is given up early, and the GPUs are offered at once ...
        (2, [(0, 90), (90, 180), (180, 270)], 270),
        # ... and another 30 / 4 s would not: the fourth block ends 20 s late, and the offer comes 4 s later.
        (4, [(0, 120), (124, 244), (248, 278)], 278),
    ],
)
def test_work_and_leases_end_with_a_block(gpus: int, held: list[tuple[float, float]], done: float) -> None:
    trace = in_blocks(gang(gpus, 255 * gpus), sample_seconds="0.03")
    result = published(trace, racked((4,)), "dally-nowait")
    rows = result.record.allocations.sort("from_seconds").select("from_seconds", "to_seconds").rows()
    assert rows == [pytest.approx(one) for one in held]
    assert finishes(result) == pytest.approx([done])


def test_a_slow_place_makes_longer_blocks() -> None:
    # Over two machines the model computes for half of the time: two blocks of 60 s instead of four of 30 s.
    nodes = tuple(Node(f"n{at}", "t", at, 1, "v100", 1, 1, 1, 1.0, 1.0) for at in range(2))
    cluster = Cluster("two", nodes, ("r0", "r1"), LINKS)
    trace = in_blocks(gang(2, 240, model="chatty"), sample_seconds=0.03)
    rules = replace(rules_named("dally-published"), network="physical")
    settings = {**rules.settings_for("dally-nowait"), **LEASE}
    result = run(trace, cluster, "dally-nowait", settings, layers={"chatty": CHATTY}, rules=rules)
    held = result.record.allocations.filter(node="n0").sort("from_seconds")
    assert held.select("from_seconds", "to_seconds").rows() == [
        pytest.approx((0, 120)),
        pytest.approx((122, 242)),
    ]


def test_a_trace_without_sample_seconds_has_no_blocks() -> None:
    result = published(jobs_of(gang(2, 2 * 255)), racked((2,)), "dally-nowait")
    assert finishes(result) == pytest.approx([255 + 2 * 2])
    assert any("no column time_per_iteration_s" in note for note in result.record.run["trace"]["notes"])


BESIDE = ("job_group_id", "note", "time_per_iteration_s", "total_iterations")


@pytest.mark.parametrize(
    ("rules", "present", "unused"),
    [
        ("dally-published", BESIDE, "note"),
        ("dally-published", BESIDE[:2], "job_group_id, note"),
        ("exact", BESIDE, ", ".join(BESIDE)),
        ("dally-published", BESIDE[2:], None),
    ],
)
def test_columns_without_an_effect_are_named(
    rules: str, present: tuple[str, ...], unused: str | None
) -> None:
    """Not those that decide the run; without the seconds of a sample none of them does."""
    values = {"job_group_id": None, "note": "x", "time_per_iteration_s": 0.03, "total_iterations": 8500}
    trace = jobs_of(gang(2, 2 * 255))
    columns = [pl.Series(name, [values[name]]) for name in present]
    trace = replace(trace, jobs=trace.jobs.with_columns(columns))
    chosen = rules_named(rules)
    settings = {**chosen.settings_for("dally-nowait"), **LEASE}
    result = run(trace, racked((2,)), "dally-nowait", settings, rules=chosen)
    notes = [note for note in result.record.run["trace"]["notes"] if "does not use" in note]
    assert notes == ([] if unused is None else [f"columns of the trace that this run does not use: {unused}"])


@pytest.mark.parametrize("reply", ["fast", "0", "-1", None, "inf", "nan"])
def test_sample_seconds_that_are_none_are_refused(reply: str | None) -> None:
    with pytest.raises(InputError, match=r"time_per_iteration_s: .*allowed: a number of seconds above 0"):
        published(in_blocks(gang(1, 10), sample_seconds=reply), racked((2,)), "dally")


def test_a_timer_is_noticed_at_the_next_offer() -> None:
    # One GPU is left on each of two machines of a rack from 10 s on; the machine timer runs out at 210 s.
    kinds = ("a", "b")
    nodes = tuple(Node(f"n{kind}", "t", 0, 2, kind, 2, 2, 2, 1.0, 1.0) for kind in kinds)
    blockers = [job(0, 9000, constraint=f"gpu_type={kind}") for kind in kinds]
    trace = jobs_of(*blockers, job(10, 50, gpus=2))
    timers = {"machine_leases": "2", "rack_leases": "5"}
    result = published(trace, Cluster("two", nodes, ("r",)), "fifo+manual-timers", **timers)
    # The others hold 0 to 100, 101 to 201, 202 to 302; what they give back is offered a second later.
    assert column(result, "start_seconds") == pytest.approx([0, 0, 303])


def test_an_arrival_offers_freed_gpus_before_their_own_offer() -> None:
    # Job 0 gives its two GPUs up at 120 s, and its offer comes at 122 s; job 1 arrives at 121 s and finds them free.
    trace = in_blocks(gang(2, 2 * 240), gang(2, 2 * 60, submit_seconds=121), sample_seconds=0.06)
    result = published(trace, racked((2,)), "fifo+no-wait")
    rows = result.record.allocations.sort("from_seconds").select("job_id", "from_seconds").rows()
    assert rows == [("0", 0), ("0", 121), ("1", 243)]
    assert finishes(result) == pytest.approx([241, 303])


def test_an_arrival_is_no_offer_while_all_gpus_are_held() -> None:
    # One GPU, two jobs: the second arrives at 10 s and is served when the first is done, a second later.
    trace = in_blocks(gang(1, 60), gang(1, 60, submit_seconds=10), sample_seconds=0.06)
    result = published(trace, racked((1,)), "fifo+no-wait")
    assert column(result, "start_seconds") == pytest.approx([0, 61])


def test_the_order_of_places_by_hand() -> None:
    # The published tables: from 12 keys on 32 buckets, from 24 on 64.
    for copies, expected in ((1, "24613750"), (2, "43726150"), (4, "76143250")):
        keys = np.repeat(np.arange(8), copies)
        tried = keys[hash_order(keys)].tolist()
        assert list(dict.fromkeys(map(str, tried))) == list(expected)


def test_islands_come_before_machines_in_published_order() -> None:
    cluster = parse_cluster("dally-2x8x8")
    trace = jobs_of(gang(1, 50), gang(2, 100), gang(6, 300))
    result = published(trace, cluster, "fifo+no-wait")
    held = {
        (job, node): gpus
        for job, node, gpus in result.record.allocations.select("job_id", "node", "gpu_ids").rows()
    }
    last, sixth = cluster.nodes[15].name, cluster.nodes[13].name
    assert held == {("0", last): [4], ("1", last): [5, 6], ("2", sixth): [0, 1, 2, 3, 4, 5]}


@pytest.mark.parametrize(
    ("fit", "start", "nodes"), [("published", 202, ["na", "nb"]), ("best", 201, ["nb", "nc"])]
)
def test_a_rack_timer_may_pass_before_a_machine_timer(fit: str, start: float, nodes: list[str]) -> None:
    # One GPU is left on each of three machines, the last two in one rack. As published the job then takes anything.
    places = [
        Node(f"n{kind}", "t", min(at, 1), 2, kind, 2, 2, 2, 1.0, 1.0)
        for at, kind in enumerate(("a", "b", "c"))
    ]
    blockers = [job(0, 9000, constraint=f"gpu_type={kind}") for kind in ("a", "b", "c")]
    trace = jobs_of(*blockers, job(1, 50, gpus=2))
    timers = {"machine_leases": "9", "rack_leases": "2", **LEASE, "fit": fit}
    rules = rules_named("dally-published" if fit == "published" else "exact")
    cluster = Cluster("three", tuple(places), ("r0", "r1"))
    settings = {**rules.settings_for("fifo+manual-timers"), **timers}
    held = run(trace, cluster, "fifo+manual-timers", settings, rules=rules).record.allocations.filter(
        job_id="3"
    )
    assert held["from_seconds"].to_list() == [start, start]
    assert sorted(held["node"].to_list()) == nodes


def test_groups_cut_the_work_of_their_first_members() -> None:
    # Four of one group at once: top 8, step 8 // 2 = 4. Two get at most 4, then one at most 8; the last stays.
    samples = np.array([7, 3, 8, 6, 99])
    arrivals = np.array([0.0, 0.0, 0.0, 0.0, 5.0])
    cut = samples_after_groups(samples, ["a"] * 5, arrivals, np.arange(5))
    assert cut.tolist() == [7, 3, 8, 4, 99]
    # Differences are compared in 32 bits: 2^31 + 2 comes before 1.
    large = np.array([1, 2**31 + 2])
    assert samples_after_groups(large, ["a", "a"], np.zeros(2), np.arange(2)).tolist() == [1, 1]
    assert samples_after_groups(large, [None, None], np.zeros(2), np.arange(2)).tolist() == large.tolist()


def test_every_second_stale_wait_is_kept_as_published() -> None:
    timers = DelayTimers(history_leases=10, lease_seconds=100, forgets="published")
    memory = timers.nothing_learned()
    for at in range(5):
        memory = timers.learned(memory, 2, MACHINE, float(at), 2.0)
    memory = timers.learned(memory, 2, MACHINE, 2000.0, 2.0)
    assert [at for at, _ in memory["machine"][2]] == [1.0, 3.0, 2000.0]


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--round", {"round_seconds": 60.0}),
        ("--contention", {"contention": True}),
        ("--release-seconds-per-gpu", {"release_seconds_per_gpu": 1.0}),
        ("--network", {"network": "physical"}),
        ("--failures", {"failures": Failures(1e6, 1e3)}),
    ],
)
def test_options_that_the_rules_lack_are_refused(flag: str, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{flag}: .*leave it out"):
        Options(rules=rules_named("dally-published"), **given)


def published_settings(name: str) -> dict[str, str]:
    """What the rules impose on a scheduler that leases; only tuned timers forget."""
    forgets = {"forgets": "published"} if name == "dally" else {}
    return {"fit": "published", "bids": "with-offers"} | forgets


@pytest.mark.parametrize("name", ["dally", "tiresias-dally", "gandiva-dally", "gandiva", "las"])
def test_the_rules_impose_only_what_a_scheduler_has(name: str) -> None:
    settings = rules_named("dally-published").settings_for(name)
    leases = name in ("dally", "tiresias-dally")
    assert settings == (published_settings(name) if leases else {})
    build(name, settings)


# Their inputs


@pytest.mark.reference
def test_efficiencies_are_theirs_to_the_last_bit(unshipped_reference: Path) -> None:
    folder = unshipped_reference / "parity/dally"
    layers = read_layers(folder / "layers.csv")
    tree = link_tree(parse_cluster("dally-2x8x8"))
    rows = pl.read_csv(folder / "eff_values.csv").rows(named=True)
    assert len(rows) > 100
    for row in rows:
        name = row["model"]
        model = layers[name].scaled(float(row["scale"][1:]) * SCALES[name])
        dims = [row[column] for column in ("mesh_in_slot", "slot_ring", "machine_ring", "rack_switch")]
        levels = np.array([level for level, size in enumerate(dims) if size])
        sizes = np.array([size for size in dims if size])
        hop_ns = np.round(tree.hop_seconds * 1e9, 6)
        layer_rows = rows_of_layers(model)
        efficiency = published_efficiency(
            layer_rows, model.compute_scale, sizes, levels, tree.level_gb_per_s, hop_ns
        )
        assert efficiency == row["eff"], row


@pytest.mark.reference
def test_places_are_tried_in_the_order_of_their_library(unshipped_reference: Path) -> None:
    for row in (
        pl.read_csv(unshipped_reference / "parity/dally/place_order.csv").fill_null("").rows(named=True)
    ):
        tried = row["order_tried"].split()
        free = sorted(tuple(map(int, place.split("."))) for place in tried)
        if row["places_with_free_gpus"] != "all":
            free = sorted(tuple(map(int, place.split("."))) for place in row["places_with_free_gpus"].split())
        keys = np.array([int(np.bitwise_xor.reduce(place)) for place in free], np.int64)
        order = [".".join(map(str, free[at])) for at in hash_order(keys)]
        assert order == tried, row


@pytest.mark.reference
def test_start_logs_repeat_start_by_start(unshipped_reference: Path) -> None:
    found = {
        f"{twin.trace} {twin.policy}": twin.run() for twin in twins(unshipped_reference / "parity/dally")
    }
    assert len(found) >= 8
    assert {name: run["same"] for name, run in found.items()} == {
        name: run["starts"] for name, run in found.items()
    }
