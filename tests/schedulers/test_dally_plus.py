"""Places weighed by the network model: forms against the model itself, choices against brute force, moves by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Node
from muster.cluster.ledger import Ledger
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError
from muster.schedulers.composed import Composed
from muster.schedulers.contract import Decision, Proposal, Snapshot, State
from muster.schedulers.placement.delay_scheduling import find_rack, fit_by_rack
from muster.schedulers.placement.least_loss import LeastLoss
from muster.schedulers.reasons import PLACED
from muster.schedulers.registry import build
from muster.speed.network.forms import ANYWHERE, EVENLY, PlacementShapes
from muster.speed.network.model_file import network_models
from muster.speed.network.placement import Placements, place, shapes_of
from muster.speed.network.speed import NetworkSpeed
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, LINKS, gang
from tests.schedulers.test_dally_timers import CLUSTERS, JOBS, NOISY
from tests.schedulers.wrapped import Wrapped

NAMES = ("VGG", "AlexNet", "MobileNetV3", "ResNet18", "ResNet50", "BERT")


def racked(*racks: tuple[int, ...]) -> Cluster:
    """A rack for each tuple, a machine for each number of GPUs in it."""
    nodes = tuple(
        Node(f"r{rack}n{at}", "t", rack, gpus, "v100", gpus, gpus, gpus, 1.0, 1.0)
        for rack, machines in enumerate(racks)
        for at, gpus in enumerate(machines)
    )
    return Cluster("racked", nodes, tuple(f"r{rack}" for rack in range(len(racks))), LINKS)


# Forms


@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 8, 12, 16, 32, 56, 100])
def test_forms_are_as_fast_as_the_network_model_says(gpus: int) -> None:
    cluster = parse_cluster("dally-2x8x8")
    speed = NetworkSpeed(network_models(NAMES)[0], cluster)
    models = np.arange(len(NAMES))
    lines, forms = PlacementShapes(speed, cluster).of(models, np.full(len(NAMES), gpus))
    for model, line in zip(models.tolist(), lines.tolist(), strict=True):
        known = forms.kinds[line, :, 0] >= 0
        speeds = forms.speeds[line, known]
        assert forms.kinds[line, known][-1, 0] == ANYWHERE
        assert (speeds[1:] <= speeds[:-1] * 1.02).all(), "the fastest first"
        for (kind, machines, racks), reply in zip(forms.kinds[line, known].tolist(), speeds, strict=True):
            if kind == EVENLY:
                placed = place([[gpus // machines] * (machines // racks)] * racks, cluster)
                assert placed is not None
                shapes = shapes_of(placed, speed.tree)
                assert reply == speed.efficiency(np.array([model]), shapes)[0]


def test_without_a_network_forms_are_alike_and_closer_ones_first() -> None:
    lines, forms = PlacementShapes(None, parse_cluster("dally-2x8x8")).of(np.array([0, 0]), np.array([8, 16]))
    assert set(forms.speeds[forms.kinds[:, :, 0] >= 0]) == {1.0}
    assert forms.kinds[lines, 0].tolist() == [[1, 1, 1], [EVENLY, 2, 1]]


# Choices


def test_the_rack_with_the_fewest_machines_then_the_fullest() -> None:
    cluster = racked((2, 2, 2, 2), (4, 4), (3, 4))
    books = Ledger(cluster, 1).books
    everywhere = np.ones(len(books.nodes), np.bool_)
    fit, racks = np.zeros(len(books.nodes), np.int64), np.zeros(3, np.int64)
    fit_by_rack(books, everywhere, np.zeros(4, np.int64), fit, racks)
    assert racks.tolist() == [8, 8, 7]
    assert [find_rack(books, fit, racks, gpus, False) for gpus in (2, 4, 6, 8, 9)] == [2, 2, 2, 1, -1]
    assert find_rack(books, fit, racks, 6, True) == 0


@dataclass(kw_only=True)
class Weighed(Wrapped):
    """A scheduler with `least-loss` whose every decision is looked at."""

    network: NetworkSpeed

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        plan, after = self.inner.decide(snapshot, state)
        with snapshot.transaction() as transaction:
            transaction.try_out(plan.changes)
            assert (snapshot.ledger.balance() == 0).all()
            free = snapshot.ledger.books.nodes["free_gpus"]
            for at, number in enumerate(snapshot.jobs.index.tolist()):
                held = sum(share.gpus for share in snapshot.ledger.holding(number))
                assert held == (snapshot.jobs.gpus[at] if plan.reasons[at] == PLACED else 0)
                if held:
                    assert self.share(snapshot, number) >= 0.3 - 1e-9
                else:
                    assert (free < snapshot.jobs.gpus[at]).all(), "a whole machine is never refused"
        return plan, after

    def share(self, snapshot: Snapshot, number: int) -> float:
        """Of the best speed that the empty cluster has for the job: every way to spread its GPUs is tried."""
        shares = snapshot.ledger.holding(number)
        own = Placements(
            np.array([0, len(shares)]),
            np.array([share.node for share in shares], np.int64),
            np.array([sum(1 << gpu for gpu in share.gpu_ids) for share in shares], np.int64),
        )
        model, gpus = int(snapshot.table.asked["model"][number]), int(snapshot.table.asked["gpus"][number])
        return self._speed(model, own) / self._best(model, gpus, snapshot.cluster) if shares else 0.0

    def _best(self, model: int, gpus: int, cluster: Cluster) -> float:
        ways = product(*(range(min(node.gpus, gpus) + 1) for node in cluster.nodes))
        fastest = 0.0
        for way in ways:
            if sum(way) == gpus:
                used = [(node, (1 << count) - 1) for node, count in enumerate(way) if count]
                nodes, bits = np.array(used, np.int64).T
                placed = Placements(np.array([0, len(used)]), nodes.copy(), bits.copy())
                fastest = max(fastest, self._speed(model, placed))
        return fastest

    def _speed(self, model: int, placed: Placements) -> float:
        shapes = shapes_of(placed, self.network.tree)
        return float(self.network.efficiency(np.array([model]), shapes)[0])


@given(JOBS, CLUSTERS, st.sampled_from(["las+least-loss", "fifo+least-loss", "dally-plus-oracle"]))
@settings(max_examples=25, deadline=None)
def test_no_place_below_the_least_and_no_machine_refused(
    rows: list[dict[str, Any]], cluster: Cluster, name: str
) -> None:
    scheduler = build(name, {"preemptive": "true", "least": "0.3"})
    assert isinstance(scheduler, Composed)
    names = list(dict.fromkeys(row["model"] for row in sorted(rows, key=lambda row: row["submit_seconds"])))
    speed = NetworkSpeed([NOISY if name == "noisy" else None for name in names], cluster)
    watched = Weighed(scheduler, network=speed)
    result = run(jobs_of(*rows), cluster, watched, layers={"noisy": NOISY}, skip_impossible=True)
    assert result.unfinished == 0


class WeighsAll(LeastLoss):
    """`least-loss` that ranks and weighs all jobs at every decision."""

    def settle(self, snapshot: Snapshot, proposal: Proposal) -> bool:
        return False


@given(
    JOBS,
    CLUSTERS,
    st.sampled_from(["dally-plus", "las+least-loss", "fifo+least-loss", "dally-plus-oracle"]),
    st.sampled_from(
        [{}, {"round_seconds": 60.0}, {"release_seconds_per_gpu": 3.0}, {"restart_cost_seconds": 0.0}]
    ),
    st.sampled_from(
        [{}, {"lease_seconds": "120"}, {"preemptive": "false"}, {"least": "0.1", "horizon_seconds": "1e6"}]
    ),
)
@settings(max_examples=60, deadline=None)
def test_without_a_look_at_the_order_a_run_is_the_same(
    rows: list[dict[str, Any]],
    cluster: Cluster,
    name: str,
    options: dict[str, Any],
    given_settings: dict[str, str],
) -> None:
    quick = build(name, {"preemptive": "true"} | given_settings)
    assert isinstance(quick, Composed)
    assert isinstance(quick.allocator, LeastLoss)
    thorough = replace(quick, allocator=WeighsAll(**vars(quick.allocator)))
    ran = [
        run(jobs_of(*rows), cluster, one, layers={"noisy": NOISY}, skip_impossible=True, **options).record
        for one in (quick, thorough)
    ]
    for table in ("jobs", "allocations", "decisions", "reasons"):
        assert getattr(ran[0], table).equals(getattr(ran[1], table)), table


def test_a_small_job_does_not_break_a_whole_machine() -> None:
    # One GPU of the first machine is taken: the second small job goes beside it, the gang gets a machine.
    trace = jobs_of(gang(1, 1000), gang(1, 1000), gang(4, 400, model="chatty"))
    result = run(trace, racked((4,), (4,)), "fifo+least-loss", layers={"chatty": CHATTY})
    assert column(result, "moves") == [0, 0, 0]
    held = result.record.allocations.filter(job_id="2")
    assert len(held) == 1


# Moves


def blocked() -> Any:
    """Two machines of 2; each has one GPU free until 150, and a gang of 2 comes."""
    return jobs_of(
        gang(1, 150, constraint="gpu_type=first"),
        gang(1, 1000, constraint="gpu_type=second"),
        gang(2, 400, model="chatty", submit_seconds=10),
    )


def two_machines() -> Cluster:
    nodes = tuple(
        Node(name, "t", at, 2, name, 2, 2, 2, 1.0, 1.0) for at, name in enumerate(("first", "second"))
    )
    return Cluster("two", nodes, ("r0", "r1"), LINKS)


@pytest.mark.parametrize(
    ("cost", "horizon", "moves"), [(10.0, "3600", 1), (10.0, "15", 0), (40.0, "3600", 0)]
)
def test_a_job_moves_when_the_gain_repays_the_restart(cost: float, horizon: str, moves: int) -> None:
    # It goes half as fast as it could, so 10 s are repaid in 20 s. It has worked for 140 s by then: 12 times 10 s.
    given = {"horizon_seconds": horizon, "preemptive": "true"}
    trace, layers = blocked(), {"chatty": CHATTY}
    result = run(trace, two_machines(), "fifo+least-loss", given, layers=layers, restart_cost_seconds=cost)
    # 2 s an iteration over two machines, 1.01 s on one.
    first = (150 - 10) / 2
    expected = 150 + cost + (200 - first) * 1.01 if moves else 10 + 400
    assert column(result, "moves")[2] == moves
    assert finishes(result)[2] == pytest.approx(expected)


def test_a_job_waits_for_a_place_that_is_worth_it() -> None:
    # Half of the best speed is less than `least`: it waits for the machine.
    result = run(blocked(), two_machines(), "fifo+least-loss", {"least": "0.6"}, layers={"chatty": CHATTY})
    assert column(result, "start_seconds")[2] == 150


# Orders


def test_shortest_counts_best_places_and_the_makespan() -> None:
    # One machine of 4 and twice 2: the chatty gang of 4 takes 1.015 x 25 x 4 GPU-seconds, the quiet one 104.
    cluster = racked((4,), (2, 2))
    trace = jobs_of(gang(4, 104), gang(4, 100, model="chatty"))
    assert (
        column(run(trace, cluster, "srsf-placed+least-loss", layers={"chatty": CHATTY}), "start_seconds")[1]
        == 0
    )
    # One GPU for 300 s needs longer than all the rest together: it goes before shorter ones.
    one = racked((2,))
    long, short = gang(1, 300), [gang(1, 50) for _ in range(4)]
    result = run(jobs_of(*short, long), one, "dally-plus-oracle")
    assert column(result, "start_seconds")[4] == 0
    assert max(column(result, "finish_seconds")) == 300


@pytest.mark.parametrize(
    ("given_settings", "words"),
    [
        ({"enough": "0.1", "least": "0.5"}, "0 <= least <= enough <= 1"),
        ({"horizon_seconds": "0"}, "horizon_seconds: allowed: a number of seconds above 0"),
    ],
)
def test_bad_settings_are_refused(given_settings: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build("dally-plus", given_settings)


def test_a_share_of_a_gpu_takes_no_whole_gpu_beside_it() -> None:
    """Two halves of one GPU leave the other one to a third job."""
    halves = [job(0, 100, gpu_milli=500), job(0, 100, gpu_milli=500)]
    result = run(jobs_of(*halves, job(0, 100)), cluster_of(2), "dally-plus", restart_cost_seconds=0.0)
    assert column(result, "start_seconds") == pytest.approx([0, 0, 0])
    assert finishes(result) == pytest.approx([100, 100, 100])
