"""The closed forms against the event recurrence, against each other and against figures worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.recurrence import iteration_ends
from muster.problems import InputError
from muster.speed.parameter_server import (
    Layers,
    asynchronous,
    bounded_staleness,
    layered,
    lumped,
    stack,
)
from tests.speed.parameter_server.layer_cases import Case, cases

many = settings(max_examples=300, deadline=None)
some = settings(max_examples=60, deadline=None)

TWO_LAYERS = Layers.checked([0.002, 0.003], [0.4, 0.1], [0.5, 2.0])


def test_two_layers_by_hand() -> None:
    # 100 samples: forward 0.5 s; 1 GB/s there and back: 1 s and 4 s of traffic; 2 workers a server: twice.
    # Layer 2 is done at 0.25 + 0.1 and travels until 8.35; layer 1, done at 0.75, waits, travels until 10.35.
    assert layered(TWO_LAYERS, 100, 1.0).step_seconds(2, 1) == pytest.approx(10.35)
    assert lumped(TWO_LAYERS, 100, 1.0, update_seconds=0.3).step_seconds(2, 1) == pytest.approx(11.35)
    # On a channel a hundred times as fast layer 2 is through (at 0.43) before layer 1 is ready.
    assert layered(TWO_LAYERS, 100, 100.0).step_seconds(2, 1) == pytest.approx(0.75 + 0.02)


def test_overheads_are_added_a_worker_and_a_server() -> None:
    plain, with_overheads = layered(TWO_LAYERS, 100, 1.0), layered(TWO_LAYERS, 100, 1.0, 0.01, 0.002)
    assert with_overheads.step_seconds(3, 5) == pytest.approx(plain.step_seconds(3, 5) + 3 * 0.01 + 5 * 0.002)


@many
@given(cases())
def test_the_layered_closed_form_is_the_recurrence(case: Case) -> None:
    closed = layered(case.layers, case.batch, case.nic_gb_per_s).step_seconds(case.workers, case.servers)
    events = iteration_ends(case.layers, case.batch, case.nic_gb_per_s, case.workers, case.servers)
    assert closed == pytest.approx(events[0], rel=1e-12)


@many
@given(cases(), st.floats(0, 1))
def test_layered_lies_between_its_bounds(case: Case, update: float) -> None:
    layers, nic, w, p = case.layers, case.nic_gb_per_s, case.workers, case.servers
    m1 = layered(layers, case.batch, nic).step_seconds(w, p)
    m0 = lumped(layers, case.batch, nic, update_seconds=update).step_seconds(w, p)
    forward = case.batch * layers.forward_seconds_per_sample.sum() / w
    traffic = 2 * layers.gradient_gb.sum() / nic * w / p
    least = max(forward + layers.backward_seconds.sum(), layers.backward_seconds[-1] + forward + traffic)
    assert least <= m1 * (1 + 1e-12)
    assert m1 <= m0 * (1 + 1e-12)


@some
@given(cases())
def test_one_layer_leaves_nothing_to_overlap(case: Case) -> None:
    one = Layers.checked([0.001], case.layers.backward_seconds[:1], case.layers.gradient_gb[:1])
    m1, m0 = (form(one, case.batch, case.nic_gb_per_s) for form in (layered, lumped))
    assert m1.step_seconds(case.workers, case.servers) == pytest.approx(
        float(m0.step_seconds(case.workers, case.servers)), rel=1e-12
    )


@some
@given(cases(), st.integers(0, 5))
def test_bounded_staleness_is_the_rate_of_the_recurrence(case: Case, staleness: int) -> None:
    form = bounded_staleness(case.layers, case.batch, case.nic_gb_per_s, staleness)
    step = float(form.step_seconds(case.workers, case.servers))
    iterations = 200
    ends = iteration_ends(
        case.layers, case.batch, case.nic_gb_per_s, case.workers, case.servers, iterations, staleness
    )
    # The longest path through n iterations is n steps, but for its two ends.
    assert abs(ends[-1] - iterations * step) <= ends[0] * (1 + staleness) + 1e-9


@some
@given(cases())
def test_staleness_zero_is_synchronous_and_more_never_slows(case: Case) -> None:
    steps = [
        float(
            bounded_staleness(case.layers, case.batch, case.nic_gb_per_s, s).step_seconds(
                case.workers, case.servers
            )
        )
        for s in (0, 1, 2, 4, 10**6)
    ]
    m1 = layered(case.layers, case.batch, case.nic_gb_per_s)
    assert steps[0] == pytest.approx(float(m1.step_seconds(case.workers, case.servers)), rel=1e-12)
    assert steps == sorted(steps, reverse=True)
    compute = (
        case.batch * case.layers.forward_seconds_per_sample.sum() / case.workers
        + case.layers.backward_seconds.sum()
    )
    channel = 2 * case.layers.gradient_gb.sum() / case.nic_gb_per_s * case.workers / case.servers
    assert steps[-1] == pytest.approx(max(compute, channel), rel=1e-4, abs=1e-4)


def test_asynchronous_speed_is_the_optimus_form() -> None:
    form = asynchronous(2.0, 3.0, 0.01, 0.02)
    assert 1 / form.iteration_seconds(6, 4) == pytest.approx(6 / (2 + 3 * 6 / 4 + 0.01 * 6 + 0.02 * 4))
    assert form.step_seconds(6, 4) == pytest.approx(6 * form.iteration_seconds(6, 4))


@some
@given(st.lists(cases(), min_size=1, max_size=5))
def test_a_stack_answers_for_each_job_as_alone(jobs: list[Case]) -> None:
    alone = [layered(job.layers, job.batch, job.nic_gb_per_s, 0.001, 0.002) for job in jobs]
    alone.append(asynchronous(1.0, 2.0, 0.01, 0.02))
    w, p = np.arange(1.0, 6)[:, None], np.arange(1.0, 4)[None, :]
    together = stack(alone).iteration_seconds(w[None], p[None])
    assert together.shape == (len(alone), 5, 3)
    for job, form in enumerate(alone):
        np.testing.assert_array_equal(together[job], form.iteration_seconds(w, p))


@some
@given(cases())
def test_stages_add_up_and_are_not_negative(case: Case) -> None:
    form = layered(case.layers, case.batch, case.nic_gb_per_s, 0.001, 0.002)
    compute, communication, update = form.stage_seconds(case.workers, case.servers)
    assert compute + communication + update == pytest.approx(
        float(form.step_seconds(case.workers, case.servers)), rel=1e-12
    )
    assert min(compute, communication, update) >= 0
    # Without traffic nothing is exposed.
    silent = Layers.checked(
        case.layers.forward_seconds_per_sample,
        case.layers.backward_seconds,
        np.zeros_like(case.layers.gradient_gb),
    )
    alone = layered(silent, case.batch, case.nic_gb_per_s, 0.001, 0.002)
    assert alone.stage_seconds(case.workers, case.servers)[1] == pytest.approx(0, abs=1e-9)


def test_only_terms_that_matter_are_kept() -> None:
    rng = np.random.default_rng(1)
    layers = Layers.checked(np.zeros(200), rng.uniform(0, 1, 200), rng.uniform(0, 1, 200))
    kept = layered(layers, 1, 1.0).terms
    assert len(kept) < 60
    load = np.geomspace(1e-4, 1e4, 20_000)
    largest = (kept[:, 1:2] + kept[:, 2:] * load).argmax(axis=0)
    assert set(largest) == set(range(len(kept)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Layers.checked([], [], []), "there is no layer"),
        (lambda: Layers.checked([1.0], [1.0, 2.0], [1.0]), "as many numbers as there are layers"),
        (lambda: Layers.checked([-1.0], [float("nan")], [1.0]), "from 0 on\n"),
        (lambda: layered(TWO_LAYERS, 0, 0.0), "batch: found 0; .*\nnic_gb_per_s: found 0.0"),
        (lambda: lumped(TWO_LAYERS, 8, float("nan")), "nic_gb_per_s: found nan"),
        (lambda: bounded_staleness(TWO_LAYERS, 8, 1.0, -1), "staleness: found -1"),
        (lambda: iteration_ends(TWO_LAYERS, 8, 0.0, 1, 1), "nic_gb_per_s: found 0.0"),
    ],
)
def test_mistakes_are_named(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(InputError, match=message):
        build()
