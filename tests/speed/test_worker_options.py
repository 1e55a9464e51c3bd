"""How long an iteration takes with other numbers of workers: closed forms, the simulator, and what must hold always."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers import reasons
from muster.schedulers.contract import Decision, Snapshot, State
from muster.speed.input_pipeline import model_table
from muster.speed.network.forms import PlacementShapes
from muster.speed.network.models import CompactModel
from muster.speed.network.placement import Placements, shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.speed.worker_options import WorkerOptions, worker_options
from muster.workload.models import Compute, Dataset, Model, synergy_models
from tests.building import cluster_of, column, every_place, finishes, job, jobs_of, run
from tests.schedulers.test_example_policies import Toy
from tests.speed.random_models import datasets, monotone_models

HALF_FIXED = Model(
    "resnet50",
    "image",
    10,
    2.0,
    4.0,
    50.0,
    (2.0, 4.0, 8.0),
    (50.0,),
    ((0.5,), (1.0,), (2.0,)),
    source="a test",
    licence="none",
    compute=Compute(fixed_samples=10, largest_batch=20),
)
"""By a name that traces may count iterations of.

A pass over its 10 samples computes for 1 s, of which half is fixed; 8 CPUs prepare them in that second."""

CHATTY = CompactModel("resnet50", 0.5, 20, 1.0, 0.3, 1.0, 1.0, 0.2, 0.5, 0.0, 0.0)
"""Half a second of compute, a GB of gradients."""

TWO_RACKS = replace(cluster_of(4, 4, 4, 4, cpus_per_gpu=8.0, racks=2))


def options_of(
    model: Model | None, asked: int, workers: list[int], cluster: Cluster, speed: NetworkSpeed | None = None
) -> WorkerOptions:
    """One gang with each of these numbers of workers."""
    count = len(workers)
    return worker_options(
        model_table([model]),
        PlacementShapes(speed, cluster),
        np.zeros(count, np.int64),
        np.full(count, asked),
        np.array(workers),
    )


def test_compute_is_the_closed_form() -> None:
    # 40 samples in all: on 1 GPU two passes over 20, on 3 GPUs 14 on the fullest, on 16 GPUs 3.
    found = options_of(HALF_FIXED, 4, [1, 2, 3, 4, 8, 16], cluster_of(16))
    assert found.passes.tolist() == [2, 1, 1, 1, 1, 1]
    assert found.local_batches.tolist() == [4, 2, 1.4, 1, 0.5, 0.3]
    assert found.compute_seconds.tolist() == pytest.approx([3.0, 1.5, 1.2, 1.0, 0.75, 0.65])
    assert found.seconds[:, 0].tolist() == pytest.approx(found.compute_seconds.tolist())


def test_input_scales_with_the_samples_of_a_gpu() -> None:
    found = options_of(HALF_FIXED, 4, [2, 4, 8], cluster_of(8))
    amounts = np.full(3, 4.0), np.full(3, 50.0), np.full(3, inf)
    assert found.input_seconds(*amounts).tolist() == pytest.approx([4.0, 2.0, 1.0])


def test_a_model_without_a_profile_is_linear() -> None:
    found = options_of(None, 4, [1, 3, 4, 8], cluster_of(8))
    assert found.compute_seconds.tolist() == pytest.approx([4, 4 / 3, 1, 0.5])
    nothing = np.zeros(4)
    assert found.input_seconds(nothing, nothing, nothing).tolist() == [0, 0, 0, 0]


def test_without_a_compute_table_nothing_is_fixed() -> None:
    plain = replace(HALF_FIXED, compute=None)
    found = options_of(plain, 4, [1, 2, 4, 8], cluster_of(8))
    assert found.compute_seconds.tolist() == pytest.approx([4, 2, 1, 0.5])
    # A GPU holds the model's own batch.
    assert found.passes.tolist() == [4, 2, 1, 1]


def test_communication_hides_behind_the_last_pass_alone() -> None:
    speed = NetworkSpeed([CHATTY], TWO_RACKS)
    found = options_of(HALF_FIXED, 8, [2, 4, 8], TWO_RACKS, speed)
    # The compute of the network profile lasts 0.5 s and that of the model 1 s: its seconds count twice.
    for at, (workers, last_pass, compute) in enumerate([(2, 1.5, 3.0), (4, 1.5, 1.5), (8, 1.0, 1.0)]):
        longer = CHATTY.scaled(last_pass)
        alone = PlacementShapes(NetworkSpeed([longer], TWO_RACKS), TWO_RACKS)
        line, forms = alone.of(np.array([0]), np.array([workers]))
        speeds = forms.speeds[line[0]]
        exposed = 0.5 * last_pass * (1 / speeds[speeds > 0] - 1)
        assert found.kinds[at].tolist() == forms.kinds[line[0]].tolist()
        shown = found.seconds[at][: len(exposed)]
        assert shown.tolist() == pytest.approx((compute + 2 * exposed).tolist())


def of_every_place(cluster: Cluster, gpus: int) -> np.ndarray:
    """The speed of `CHATTY` on every place of a gang, by brute force."""
    speed = NetworkSpeed([CHATTY], cluster)
    places = every_place(cluster, gpus)
    exposed = speed.exposed_seconds(np.zeros(places.jobs, np.int64), shapes_of(places, speed.tree))
    return CHATTY.compute_seconds / (CHATTY.compute_seconds + np.asarray(exposed))


@pytest.mark.parametrize("nodes", [(2, 2, 2, 2), (4, 2, 2), (4, 3, 2, 1), (3, 1, 1, 1)])
@pytest.mark.parametrize("racks", [1, 2, 3])
def test_every_gang_that_fits_counts_as_on_some_place(nodes: tuple[int, ...], racks: int) -> None:
    cluster = cluster_of(*nodes, racks=racks)
    shapes = PlacementShapes(NetworkSpeed([CHATTY], cluster), cluster)
    for gpus in range(1, sum(nodes) + 1):
        line, forms = shapes.of(np.array([0]), np.array([gpus]))
        found, possible = forms.speeds[line[0]], of_every_place(cluster, gpus)
        for each in found[found > 0]:
            assert np.isclose(each, possible, rtol=1e-9).any()


def test_the_gpus_asked_for_are_exactly_as_measured() -> None:
    models = list(synergy_models().values())
    table = model_table(models)
    speed = NetworkSpeed([CHATTY] * len(models), TWO_RACKS)
    for gpus in (1, 3, 8):
        each = np.full(len(models), gpus)
        found = worker_options(
            table, PlacementShapes(speed, TWO_RACKS), np.arange(len(models)), each, each, None
        )
        assert found.compute_seconds.tolist() == table["compute_seconds"].tolist()
        assert found.local_batches.tolist() == [1] * len(models)
        assert found.passes.tolist() == [1] * len(models)


@settings(max_examples=60, deadline=None)
@given(
    model=monotone_models(),
    data=st.none() | datasets(),
    fixed=st.floats(0, 100),
    batch=st.integers(1, 100),
    room=st.integers(0, 100),
    asked=st.integers(1, 12),
)
def test_more_workers_compute_and_read_no_longer(
    model: Model, data: Dataset | None, fixed: float, batch: int, room: int, asked: int
) -> None:
    compute = Compute(fixed, batch + room)
    model = replace(model, batch=batch, dataset=data, compute=compute)
    workers = list(range(1, 17))
    found = options_of(model, asked, workers, cluster_of(16))
    assert (np.diff(found.compute_seconds) <= 1e-12).all()
    full = model_table([model])["compute_seconds"][0]
    share = fixed / (fixed + batch)
    # No worker computes less than the whole batch in even parts, in one pass.
    ideal = full * (share + (1 - share) * asked / np.array(workers))
    assert (found.compute_seconds >= ideal * (1 - 1e-9)).all()
    fullest = [-(-asked * batch // count) for count in workers]
    assert (found.local_batches * batch).tolist() == pytest.approx(fullest, rel=1e-12)
    amounts = [np.full(16, amount) for amount in (model.cpus_per_gpu[0], model.memory_gb_per_gpu[0], 0.1)]
    assert (np.diff(found.input_seconds(*amounts)) <= 1e-12).all()


@settings(max_examples=60, deadline=None)
@given(model=monotone_models(), asked=st.integers(1, 8), seconds=st.floats(0.001, 100))
def test_input_needs_are_the_least_cpus(model: Model, asked: int, seconds: float) -> None:
    workers = [1, 2, 5, 8]
    found = options_of(model, asked, workers, cluster_of(8))
    cpus, memory = found.input_needs(np.full(4, seconds))
    assert memory[0].tolist() == list(model.memory_gb_per_gpu)
    for at in range(4):
        for needed, amount in zip(cpus[at], memory[at], strict=True):
            with_all = at_most(found, at, 1e9, amount)
            if needed == inf:
                assert with_all > seconds * (1 - 1e-9)
                continue
            assert at_most(found, at, needed, amount) == pytest.approx(seconds, rel=1e-6) or (
                at_most(found, at, needed, amount) <= seconds
            )
            assert at_most(found, at, needed * (1 - 1e-6), amount) >= seconds * (1 - 1e-9)


def at_most(found: WorkerOptions, at: int, cpus: float, memory_gb: float) -> float:
    """Input seconds of one row."""
    count = len(found.records)
    amounts = [np.full(count, amount) for amount in (cpus, memory_gb, inf)]
    return float(found.input_seconds(*amounts)[at])


@dataclass
class Places(Toy):
    """Puts the first job on these GPUs by machine, with so many CPUs a GPU."""

    gpus: dict[int, int] = field(default_factory=dict)
    cpus: float = 8.0
    memory_gb: float = 50.0

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        with snapshot.transaction() as transaction:
            for number in snapshot.jobs.index[snapshot.jobs.waiting].tolist():
                rows = [
                    NodeAllocation(node, tuple(range(count)), self.cpus * count, self.memory_gb * count)
                    for node, count in self.gpus.items()
                ]
                transaction.put(number, rows)
            return self.plan(snapshot, transaction, reasons.NO_GPUS, stable_until=inf), state


@pytest.mark.parametrize("cpus", [1.0, 8.0])
@pytest.mark.parametrize(
    "place", [{0: 1}, {0: 4}, {0: 3, 2: 3}, {0: 4, 2: 4}, {0: 4, 1: 4}, {0: 4, 1: 4, 2: 4, 3: 4}]
)
def test_the_simulator_runs_a_gang_at_these_seconds(place: dict[int, int], cpus: float) -> None:
    elastic = {"submit_seconds": 0, "iterations": 100, "gpus": 8, "model": "resnet50", "min_gpus": 1}
    trace = jobs_of({**elastic, "max_gpus": 16})
    models, layers = {"resnet50": HALF_FIXED}, {"resnet50": CHATTY}
    result = run(trace, TWO_RACKS, Places(gpus=place, cpus=cpus), models=models, layers=layers)
    found = options_of(HALF_FIXED, 8, [sum(place.values())], TWO_RACKS)
    last_pass = float(found.compute_seconds[0] / found.passes[0])
    on_place = NetworkSpeed([CHATTY.scaled(last_pass)], TWO_RACKS)
    nodes, bits = np.array([*place]), np.array([(1 << count) - 1 for count in place.values()])
    placements = Placements(np.array([0, len(place)]), nodes, bits)
    exposed = 2 * on_place.exposed_seconds(np.array([0]), shapes_of(placements, on_place.tree))[0]
    computing = float(found.compute_seconds[0])
    expected = max(computing + exposed, at_most(found, 0, cpus, 50.0))
    assert finishes(result)[0] == pytest.approx(100 * expected)
    stages = [column(result, f"{stage}_seconds")[0] for stage in ("input_stall", "compute", "communication")]
    waited = expected - computing - exposed
    assert stages == pytest.approx([100 * waited, 100 * computing, 100 * exposed])


def test_a_duration_is_that_of_the_gpus_asked_for() -> None:
    trace = jobs_of(job(0, 300, gpus=8, model="resnet50", min_gpus=1, max_gpus=16))
    place = Places(gpus={0: 4, 2: 4})
    layers = {"resnet50": CHATTY}
    result = run(trace, TWO_RACKS, place, models={"resnet50": HALF_FIXED}, layers=layers)
    assert finishes(result) == [pytest.approx(300)]
