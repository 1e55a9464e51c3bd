"""Machines with different types of GPU under Synergy's allocations: the promise, the bound, who goes where."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from muster.schedulers.allocation.greedy import Greedy
from muster.schedulers.allocation.opt import Opt
from muster.schedulers.allocation.tune import Tune
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.certify import bound_of_decision, bound_of_plan
from muster.schedulers.parts import GangAllocator
from muster.workload.models import Model, synergy_models
from tests.building import cluster_of, finishes, job, jobs_of, run
from tests.schedulers.synergy_cases import (
    Round,
    allocate,
    fair_speed_on,
    fair_speeds,
    on_types,
    random_round,
    round_of,
    servers,
    speeds,
    total_speed,
    tried,
    typed,
)
from tests.schedulers.test_synergy_guarantee import GUARANTEED

SYNERGYS = synergy_models()
FAST_RESNET = on_types(SYNERGYS["resnet18"], {"a100": 3.0, "k80": 0.4})
STEADY_GNMT = on_types(SYNERGYS["gnmt"], {"a100": 1.1, "k80": 0.9})
MODELS = {"resnet18": FAST_RESNET, "gnmt": STEADY_GNMT}


def slowest_allowed(case: Round) -> np.ndarray:
    """Each job's speed with the proportional share of the slowest type of machine that it may use."""
    books, models = case.snapshot.ledger.books, case.snapshot.resource_profiles.models
    allowed = case.snapshot.table.node_allowed[case.snapshot.jobs.constraint]
    return np.array(
        [
            min(
                fair_speed_on(models, model, node)
                for node in books.nodes[allowed[at] & (books.nodes["gpus"] > 0)]
            )
            for at, model in enumerate(case.snapshot.jobs.model)
        ]
    )


@settings(max_examples=60, deadline=None)
@given(plain=random_round(), data=st.data())
def test_promises_where_owners_pin_a_type(plain: Round, data: st.DataObject) -> None:
    """No job is below the share of the machines that it got, nor of the slowest it may use; the bound stays above."""
    cluster, table = plain.snapshot.cluster, plain.snapshot.table
    kinds = st.sampled_from(["", *(f"gpu_type={name}" for name in cluster.gpu_types)])
    pins = data.draw(st.lists(kinds, min_size=len(table), max_size=len(table)))
    models = {name: model for name, model in zip(table.model_names, table.models, strict=True) if model}
    jobs = [
        (table.model_names[model], gpus)
        for model, gpus in zip(
            plain.snapshot.jobs.model.tolist(), plain.snapshot.jobs.gpus.tolist(), strict=True
        )
    ]
    case = round_of(cluster, jobs, models, pins)
    totals = []
    for allocator in GUARANTEED:
        with tried(allocator, case):
            reached = speeds(case)
            placed = reached > 0
            assert (reached >= fair_speeds(case) * (1 - 1e-6)).all()
            assert (reached[placed] >= slowest_allowed(case)[placed] * (1 - 1e-6)).all()
            for at in np.flatnonzero(placed).tolist():
                allowed = table_allows(case, at)
                assert all(allowed[share.node] for share in case.snapshot.ledger.holding(at))
            totals.append(total_speed(case))
            # The fair bound is one on plans that run every job whose GPUs fit; a plan may leave such a job waiting.
            assert bound_of_decision(case.snapshot) >= totals[-1] * (1 - 1e-6)
    assert totals == pytest.approx(sorted(totals), rel=1e-6)


def table_allows(case: Round, at: int) -> np.ndarray:
    allowed: np.ndarray = case.snapshot.table.node_allowed[case.snapshot.jobs.constraint[at]]
    return allowed


@pytest.mark.parametrize("allocator", [TunePlus(), Opt()])
def test_who_gains_most_gets_the_faster_gpus(allocator: GangAllocator) -> None:
    """Eight of each on eight A100 and eight K80: 8 x 3 + 8 x 0.9, and the hungry ones' CPUs beside it."""
    cluster = typed(servers(2), ["k80", "a100"])
    case = round_of(cluster, [("resnet18", 1), ("gnmt", 1)] * 8, MODELS)
    allocate(allocator, case)
    on = {at: case.snapshot.ledger.holding(at)[0].node for at in range(16)}
    assert [on[at] for at in range(0, 16, 2)] == [1] * 8
    assert [on[at] for at in range(1, 16, 2)] == [0] * 8
    assert total_speed(case) == pytest.approx(8 * 3 + 8 * 0.9)
    assert bound_of_plan(case.snapshot) >= total_speed(case) * (1 - 1e-9)


def test_a_pinned_job_stays_with_its_type() -> None:
    cluster = typed(servers(2), ["k80", "a100"])
    pins = ["gpu_type=k80"] * 4
    first = round_of(cluster, [("resnet18", 1)] * 4, MODELS, pins)
    allocate(Greedy(), first)
    # Nine CPUs each; for a third there are not enough on the K80s, and elsewhere it may not go.
    assert speeds(first) == pytest.approx([0.4 * 2.4, 0.4 * 2.4, 0, 0])
    for allocator in (Tune(), TunePlus(), Opt()):
        case = round_of(cluster, [("resnet18", 1)] * 4, MODELS, pins)
        allocate(allocator, case)
        assert {case.snapshot.ledger.holding(at)[0].node for at in range(4)} == {0}
        # Six CPUs each: 1.75 times as fast as on three, on a K80.
        assert total_speed(case) == pytest.approx(4 * 0.4 * 1.75, rel=0.2)
        assert bound_of_plan(case.snapshot) <= 4 * 0.4 * 2.4 * (1 + 1e-9)


def full_program(case: Round) -> float:
    """Stage 1 with an index of machine types over every measured point, by another solver."""
    jobs, cluster, table = case.snapshot.jobs, case.snapshot.cluster, case.snapshot.table
    kinds = cluster.gpu_types
    pool = np.array(
        [
            [
                sum(getattr(n, what) for n in cluster.nodes if n.gpu_type == kind)
                for what in ("gpus", "cpus", "memory_gb")
            ]
            for kind in kinds
        ]
    )
    profit, usage, owner = [], [], []
    for at in np.flatnonzero(case.chosen):
        model, gpus = table.models[jobs.model[at]], int(jobs.gpus[at])
        assert model is not None
        for number, kind in enumerate(kinds):
            node = next(at for at, node in enumerate(cluster.nodes) if node.gpu_type == kind)
            speed = model.speed_on(kind) or model.speed
            fair = fair_speed_on(
                case.snapshot.resource_profiles.models,
                int(jobs.model[at]),
                case.snapshot.ledger.books.nodes[node],
            )
            for (i, cpus), (j, memory) in product(
                enumerate(model.cpus_per_gpu), enumerate(model.memory_gb_per_gpu)
            ):
                if cpus * gpus <= 24 and memory * gpus <= 500 and speed[i][j] >= fair * (1 - 1e-9):
                    profit.append(-gpus * speed[i][j])
                    row = np.zeros((len(kinds), 3))
                    row[number] = (gpus, gpus * cpus, gpus * memory)
                    usage.append(row.ravel())
                    owner.append(at)
    groups = np.unique(owner)
    equal = (np.array(owner)[None, :] == groups[:, None]).astype(float)
    solved = linprog(profit, np.array(usage).T, pool.ravel(), equal, np.ones(len(groups)))
    assert solved.fun is not None
    return -float(solved.fun)


@pytest.mark.parametrize("seed", range(6))
def test_bound_is_the_full_linear_program_over_types(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = typed(servers(4), ["a100", "v100", "v100", "k80"])
    models = {
        name: on_types(SYNERGYS[name], {"a100": float(rng.uniform(1, 3)), "k80": float(rng.uniform(0.2, 1))})
        for name in ("alexnet", "resnet18", "m5", "gnmt", "deepspeech")
    }
    jobs = [(str(rng.choice(list(models))), int(rng.choice([1, 1, 2, 4]))) for _ in range(12)]
    case = round_of(cluster, jobs, models)
    best = full_program(case)
    allocate(Opt(), case)
    bound = bound_of_plan(case.snapshot)
    assert best * (1 - 1e-9) <= bound <= best * 1.005
    assert total_speed(case) >= 0.97 * bound


@pytest.mark.parametrize("seed", range(6))
def test_opt_is_no_worse_than_brute_force_over_types(seed: int) -> None:
    """Four jobs on two machines of two GPUs of different types."""
    rng = np.random.default_rng(seed)
    cluster = typed(cluster_of(2, 2, cpus_per_gpu=4.0, memory_gb_per_gpu=125.0), ["a100", "k80"])
    models = {
        name: on_types(SYNERGYS[name], {"a100": float(rng.uniform(1, 3)), "k80": float(rng.uniform(0.2, 1))})
        for name in ("alexnet", "resnet18", "m5", "gnmt")
    }
    names = [str(rng.choice(list(models))) for _ in range([4, 3][seed % 2])]
    case = round_of(cluster, [(name, 1) for name in names], models)
    allocate(Opt(), case)
    assert total_speed(case) >= brute_force(cluster.gpu_types, [models[name] for name in names]) * (1 - 1e-6)


def brute_force(gpu_types: tuple[str, ...], models: list[Model]) -> float:
    """The best of every machine and measured point of every one-GPU job, on machines of 2 GPUs, 8 CPUs, 250 GB."""
    ways = []
    for model in models:
        of_model = []
        for node, kind in enumerate(gpu_types):
            speed = model.speed_on(kind) or model.speed
            fair = speed[model.cpus_per_gpu.index(4)][model.memory_gb_per_gpu.index(125)]
            cheapest: dict[float, list[tuple[float, float]]] = {}
            for (i, cpus), (j, memory) in product(
                enumerate(model.cpus_per_gpu), enumerate(model.memory_gb_per_gpu)
            ):
                if speed[i][j] >= fair and cpus <= 8 and memory <= 250:
                    same = cheapest.setdefault(speed[i][j], [])
                    if not any(c <= cpus and m <= memory for c, m in same):
                        same.append((cpus, memory))
            of_model += [(node, 1, c, m, value) for value, points in cheapest.items() for c, m in points]
        ways.append(of_model)
    best = 0.0
    for choice in product(*ways):
        held = np.zeros((2, 3))
        for node, *amounts, _ in choice:
            held[node] += amounts
        if (held <= np.array([2, 8 + 1e-9, 250 + 1e-9])).all():
            best = max(best, sum(way[-1] for way in choice))
    return best


def test_a_run_goes_at_the_speed_of_its_gpus() -> None:
    """1200 s of work at the reference: 400 s on an A100, 3000 s on a K80; a gang over both at the slower's pace."""
    cluster = typed(cluster_of(1, 1), ["a100", "k80"])
    flat = {"gnmt": on_types(SYNERGYS["gnmt"], {"a100": 3.0, "k80": 0.4})}
    one = jobs_of(*(job(0, 1200, model="gnmt", constraint=f"gpu_type={kind}") for kind in ("a100", "k80")))
    assert finishes(run(one, cluster, "fifo+tune", models=flat)) == pytest.approx([400, 3000])
    both = jobs_of(job(0, 1200, gpus=2, model="gnmt"))
    result = run(both, cluster, "fifo+tune", models=flat, certify=True)
    assert finishes(result) == pytest.approx([3000])
    result = run(one, cluster, "fifo")
    assert finishes(result) == pytest.approx([1200, 1200])
    assert any("gnmt on GPUs of type a100, k80" in note for note in result.record.run["trace"]["notes"])
