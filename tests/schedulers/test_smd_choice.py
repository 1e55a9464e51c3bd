"""SMD's choice against the enumeration of everything that could be chosen, and what its field promises."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.papers.smd.cells import cluster_for, first_question
from muster.problems import InputError
from muster.schedulers.contract import State
from muster.schedulers.registry import build
from muster.schedulers.workers_and_servers.interval import ROUNDS, PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.one_to_one import (
    DrfPairs,
    Equal,
    FirstFitPairs,
    TetrisPairs,
    largest_pairs,
)
from muster.schedulers.workers_and_servers.optimus import Optimus
from muster.schedulers.workers_and_servers.sizing_problem import PROGRESS, SizingProblem
from muster.schedulers.workers_and_servers.smd import Smd, SmdReservation, rounded_up
from muster.workload.generators.smd import generate
from tests.schedulers.smd_cases import FIELD, random_question

EXACT = Smd(nodes=10_000, objective="published")
PUBLISHED = Smd(objective="published")
SEEDS = st.integers(0, 10_000)


def pairs_of(question: SizingProblem, job: int) -> list[tuple[int, int]]:
    """Every pair within the owner's limit, and nothing."""
    one, demands = np.array([job]), question.demands
    within = [
        (w, 0 if question.is_ring[job] else p)
        for w, p in product(range(1, 9), range(1, 9))
        if (
            demands.usage(np.full(len(question), w), np.full(len(question), p))[one]
            <= demands.limit[one] + 1e-9
        ).all()
    ]
    return [(0, 0), *within]


def profit(question: SizingProblem, sizes: list[tuple[int, int]]) -> float:
    """Utility, and the part for progress, of everybody at once."""
    total = 0.0
    for job, (w, p) in enumerate(sizes):
        if w:
            seconds = float(question.remaining[job] * question.steps[job].iteration_seconds(w, max(p, 1)))
            rated = question.priority[job] / (
                1 + np.exp(question.urgency[job] * (seconds - question.target[job]))
            )
            total += rated + PROGRESS / (1 + seconds / 3600)
    return total


def charged(question: SizingProblem, sizes: list[tuple[int, int]]) -> np.ndarray:
    """What these sizes are charged in all."""
    demands, total = question.demands, np.zeros(4)
    for job, (w, p) in enumerate(sizes):
        if w:
            held = w * demands.worker[job] + p * demands.server[job]
            total += (demands.limit[job] if question.reserved else held)[:4]
    return total


def best(question: SizingProblem) -> float:
    """The most profit of all joint choices that fit."""
    choices = [pairs_of(question, job) for job in range(len(question))]
    return max(
        profit(question, list(sizes))
        for sizes in product(*choices)
        if (charged(question, list(sizes)) <= question.capacity + 1e-9).all()
    )


def sizes_of(answer: SizingSolution) -> list[tuple[int, int]]:
    return list(zip(answer.workers.tolist(), answer.servers.tolist(), strict=True))


@pytest.mark.parametrize("reserved", [False, True])
@given(seed=SEEDS, jobs=st.integers(1, 3), rings=st.sampled_from([0.0, 0.5]))
@settings(max_examples=40, deadline=None)
def test_the_decomposition_is_the_joint_optimum(seed: int, jobs: int, rings: float, reserved: bool) -> None:
    """Of jobs with servers and of rings, side by side."""
    question = random_question(seed, jobs, most=2, reserved=reserved, rings=rings)
    answer = EXACT.answer(question, None)
    found = profit(question, sizes_of(answer))
    assert found == pytest.approx(best(question), rel=2e-4)
    assert found <= answer.bound * (1 + 1e-9) + 1e-12
    assert (charged(question, sizes_of(answer)) <= question.capacity + 1e-6).all()


@given(seed=SEEDS, jobs=st.integers(2, 30))
@settings(max_examples=25, deadline=None)
def test_usage_is_worth_at_least_as_much_as_reservation(seed: int, jobs: int) -> None:
    question = random_question(seed, jobs)
    reserved = replace(question, reserved=True)
    usage_bound = EXACT.answer(question, None).bound
    assert profit(reserved, sizes_of(EXACT.answer(reserved, None))) <= usage_bound * (1 + 1e-9)


@given(seed=SEEDS, jobs=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_more_capacity_never_lowers_the_optimum(seed: int, jobs: int) -> None:
    question = random_question(seed, jobs)
    larger = replace(question, capacity=question.capacity * 1.3)
    before = profit(question, sizes_of(EXACT.answer(question, None)))
    assert before <= EXACT.answer(larger, None).bound * (1 + 1e-9)
    assert profit(larger, sizes_of(EXACT.answer(larger, None))) >= before * (1 - 2e-4)


@given(seed=SEEDS, jobs=st.integers(1, 12), more=st.floats(1.0, 2.0))
@settings(max_examples=25, deadline=None)
def test_a_higher_limit_never_lowers_the_optimum(seed: int, jobs: int, more: float) -> None:
    """Where a job is charged what it holds; a reservation is charged the higher limit."""
    question = random_question(seed, jobs)
    demands = replace(question.demands, limit=question.demands.limit * more)
    before = profit(question, sizes_of(EXACT.answer(question, None)))
    allowed = replace(question, demands=demands)
    assert before <= EXACT.answer(allowed, None).bound * (1 + 1e-9)
    assert profit(allowed, sizes_of(EXACT.answer(allowed, None))) >= before * (1 - 2e-4)


@given(seed=SEEDS, jobs=st.integers(1, 40), rings=st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=25, deadline=None)
def test_the_fast_choice_is_between_baselines_and_the_bound(seed: int, jobs: int, rings: float) -> None:
    question = random_question(seed, jobs, rings=rings)
    answer = PUBLISHED.answer(question, None)
    own = profit(question, sizes_of(answer))
    assert own <= answer.bound * (1 + 1e-9)
    for baseline in (Optimus(), Equal(), FirstFitPairs(), DrfPairs(), TetrisPairs()):
        theirs = baseline.answer(question, None)
        assert (charged(question, sizes_of(theirs)) <= question.capacity * (1 + 1e-6)).all(), baseline.name
        for job, size in enumerate(sizes_of(theirs)):
            assert size in pairs_of(question, job), baseline.name
        assert profit(question, sizes_of(theirs)) <= answer.bound * (1 + 1e-9), baseline.name


def plain_optimus(question: SizingProblem) -> list[tuple[int, int]]:
    """The same rule, looking at everybody again in every step."""
    demands, left = question.demands, question.capacity * (1 + 1e-9)
    sizes = []
    for job in range(len(question)):
        need = (demands.worker + demands.server)[job, :4]
        fits = bool((need <= left).all())
        left = left - need if fits else left
        sizes.append([1, 1] if fits else [0, 0])
    while True:
        gains = []
        for job, (w, p) in enumerate(sizes):
            for role, need in enumerate((demands.worker[job], demands.server[job])):
                held = w * demands.worker[job] + p * demands.server[job]
                if not w or (held + need > demands.limit[job] * (1 + 1e-9)).any() or (need[:4] > left).any():
                    continue
                step = question.steps[job]
                cut = float(step.iteration_seconds(w, p) - step.iteration_seconds(w + (1 - role), p + role))
                share = float((need[:4] / question.capacity).max())
                gains.append((cut * question.remaining[job] / share, -job, -role))
        if not gains or max(gains)[0] <= 1e-9:
            return [(w, p) for w, p in sizes]
        _, job, role = max(gains)
        sizes[-job][-role] += 1
        left = left - (demands.server if role else demands.worker)[-job, :4]


@given(seed=SEEDS, jobs=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_optimus_is_its_rule_step_by_step(seed: int, jobs: int) -> None:
    question = random_question(seed, jobs, most=4)
    assert sizes_of(Optimus(layers=True).answer(question, None)) == plain_optimus(question)


@given(seed=SEEDS, jobs=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_drf_is_max_min_fair(seed: int, jobs: int) -> None:
    """No job could have one pair more without a job that has no more than it having one less, or over the limit."""
    question = random_question(seed, jobs, most=4)
    workers = DrfPairs().answer(question, None).workers
    most, _ = largest_pairs(question)
    each = question.usage(np.arange(jobs), np.ones(jobs, int), np.ones(jobs, int))
    share = question.shares(each)
    left = question.capacity - (each * workers[:, None]).sum(axis=0)
    for job in range(jobs):
        if workers[job] == most[job]:
            continue
        room = left.copy()
        # Take back what others were given after this job would have had its turn.
        for other in range(jobs):
            while (
                other != job
                and workers[other]
                and share[other] * (workers[other] - 1) > share[job] * workers[job]
            ):
                workers = workers.copy()
                workers[other] -= 1
                room += each[other]
        assert (each[job] > room + 1e-9).any()
        workers = DrfPairs().answer(question, None).workers


def test_equal_numbers_are_the_largest_square_in_the_limit() -> None:
    question = random_question(3, 50, most=6)
    workers, servers = largest_pairs(question)
    pair, limit = question.demands.worker + question.demands.server, question.demands.limit
    assert (workers == servers).all()
    assert (workers[:, None] * pair <= limit + 1e-9).all()
    assert ((workers[:, None] + 1) * pair > limit + 1e-9).any(axis=1).all()


def test_a_job_keeps_its_size_unless_another_repays_the_restart() -> None:
    question = random_question(5, 1, most=3, share=2.0)
    best_size = sizes_of(Smd().answer(question, None))[0]
    slightly_worse = replace(
        question, workers=np.array([best_size[0]]), servers=np.array([max(best_size[1] - 1, 1)])
    )
    gain = float(
        question.iteration_seconds(slightly_worse.workers, slightly_worse.servers)[0]
        / question.iteration_seconds(np.array([best_size[0]]), np.array([best_size[1]]))[0]
    )
    stays = Smd(hysteresis=gain).answer(slightly_worse, None)
    assert sizes_of(stays) == [(best_size[0], max(best_size[1] - 1, 1))]
    free = replace(slightly_worse, interruption_cost=np.zeros(1))
    assert sizes_of(Smd(hysteresis=0.0).answer(free, None)) == [best_size]


@dataclass(frozen=True)
class OneLess(PeriodicScheduler):
    """Takes everything from the first job that may change, and leaves the others as they are."""

    name: ClassVar[str] = "one-less"
    asked: list[int] = field(default_factory=list)

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """What is held, less the first job's."""
        self.asked.append(len(question))
        workers, servers = question.workers.copy(), question.servers.copy()
        workers[:1] = servers[:1] = 0
        return SizingSolution(workers, servers)


@pytest.mark.parametrize("jobs", [3, 60])
def test_changes_that_never_repay_end_after_bounded_rounds(jobs: int) -> None:
    ones = np.ones(jobs, np.int64)
    question = replace(random_question(1, jobs, most=2, share=1.0), workers=ones, servers=ones)
    scheduler = OneLess()
    answer, after = scheduler.sizes(question, None)
    assert len(scheduler.asked) <= ROUNDS + 1
    assert after.pinned.all()
    assert (answer.workers == 1).all()
    assert (answer.servers == 1).all()


# Branch and bound by default.


def of_generator(scheduler: Smd, jobs: int, seed: int) -> SizingProblem:
    """The first decision about generated jobs that all come at once, at 0.3 of their limits."""
    trace = generate(jobs, seed=seed)
    question: SizingProblem = first_question(
        trace, cluster_for(trace.jobs, 0.3), scheduler, layers_known=scheduler.layers
    )
    return question


@pytest.mark.parametrize(
    "scheduler", [PUBLISHED, SmdReservation(objective="published")], ids=["usage", "reserved"]
)
def test_a_decision_of_100_jobs_is_exact_by_default(scheduler: Smd) -> None:
    question = of_generator(scheduler, 100, seed=6)
    rounded, answer = replace(scheduler, nodes=0).answer(question, None), scheduler.answer(question, None)
    value = question.value(answer.workers, answer.servers, scheduler.hysteresis)
    assert question.value(rounded.workers, rounded.servers, scheduler.hysteresis) < value * (1 - 1e-4)
    assert value >= answer.bound * (1 - 1e-4)
    assert answer.notes == ()


def test_a_decision_that_is_not_proven_says_its_gap() -> None:
    scheduler = SmdReservation(objective="published")
    question = of_generator(scheduler, 500, seed=1)
    answer = scheduler.answer(question, None)
    left_out = 1 - question.value(answer.workers, answer.servers, scheduler.hysteresis) / answer.bound
    assert 0.001 < left_out < 0.002
    assert answer.notes == (
        "smd-reservation: branch and bound ended at its limit of work; the best plan found by then stands, "
        "at most 0.2% below the best there is",
    )
    assert replace(scheduler, nodes=0).answer(question, None).notes == ()
    again = scheduler.answer(question, None)
    assert again.workers.tobytes() == answer.workers.tobytes()


@given(gap=st.floats(1e-9, 10))
def test_a_noted_gap_is_rounded_up_to_1_2_or_5(gap: float) -> None:
    shown = rounded_up(gap)
    assert 100 * gap <= shown * (1 + 1e-12)
    assert shown <= 2.5 * 100 * gap * (1 + 1e-12)
    assert f"{shown:.0e}"[0] in "125"


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "nan"])
@pytest.mark.parametrize("name", FIELD)
def test_an_interval_is_a_number_of_seconds_above_0(name: str, seconds: str) -> None:
    with pytest.raises(InputError, match=rf"--set interval_seconds: found '{seconds}'; interval_seconds"):
        build(name, {"interval_seconds": seconds})


@pytest.mark.parametrize("seed", range(5))
def test_a_resource_neither_there_nor_needed_changes_nothing(seed: int) -> None:
    """Of Tetris over pairs, which divides by capacities: no network bandwidth, and none needed."""
    question = random_question(seed, 6)
    for amounts in (question.demands.worker, question.demands.server, question.demands.limit):
        amounts[:, 3] = 0.0
    sizes = []
    for bandwidth in (0.0, 1.0):
        capacity = np.append(question.capacity[:3], bandwidth)
        sizes.append(TetrisPairs().answer(replace(question, capacity=capacity), {}))
    assert sizes[0].workers.sum() > 0
    assert (sizes[0].workers == sizes[1].workers).all()
    assert (sizes[0].servers == sizes[1].servers).all()
