"""Several workers on this machine: which are measured, real ranks, and the law of their steps."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muster.cli.app import run as run_command_line
from muster.cli.profile_view import document, remarks
from muster.problems import InputError
from muster.profiling.compute import ComputeProfile, fit_of
from muster.profiling.job import JobToProfile, running
from muster.profiling.model import model_of, model_toml
from muster.profiling.network_fit import fit_network
from muster.profiling.optimistic import Profile
from muster.profiling.rates import Rate
from muster.profiling.workers import WorkersProfile, measure_workers, worker_counts
from muster.workload.models import read_model

from . import shared_job, shared_ranks
from .test_compute import QUICK
from .test_model import rate
from .test_real_jobs import silent

FIXED, PER_SAMPLE, BATCH = 0.01, 0.0005, 48


@pytest.mark.parametrize(
    ("wanted", "gpus", "cores", "counts"),
    [
        (None, "", 8.0, (1,)),
        (2, "", 2.0, (1, 2)),
        (3, "", 8.0, (1, 2, 3)),
        (None, "0", 8.0, (1,)),
        (None, "0,1", 1.0, (1, 2)),
        (None, "0,1,2,3,4,5", 8.0, (1, 2, 4)),
        (6, "0,1,2,3,4,5", 8.0, (1, 2, 4, 6)),
        (1, "0,1", 8.0, (1,)),
    ],
)
def test_numbers_of_workers(wanted: int | None, gpus: str, cores: float, counts: tuple[int, ...]) -> None:
    assert worker_counts(wanted, JobToProfile(["x"], gpu=gpus).gpu_names, cores) == counts


@pytest.mark.parametrize(
    ("wanted", "gpus", "said"),
    [
        (3, "0,1", "found 3; allowed: 1 to 2, as many as free GPUs"),
        (3, "", "found 3; allowed: 1 to 2, as many as cores, without GPUs one for each worker"),
        (0, "", "found 0; allowed: 1 to 2"),
    ],
)
def test_more_workers_than_there_is_room_for(wanted: int, gpus: str, said: str) -> None:
    with pytest.raises(InputError, match=f"--workers: {said}"):
        worker_counts(wanted, JobToProfile(["x"], gpu=gpus).gpu_names, 2.9)


def test_a_script_that_does_not_share_has_one_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "--workers", "2", "--gpu", "", "--out", str(tmp_path / "never.toml"), "--"]
    assert run_command_line([*words, sys.executable, str(Path(shared_job.__file__))]) == 2
    assert "--workers: found 2; allowed: 1 for a script that does not share" in capsys.readouterr().err


@pytest.mark.needs_torch
def test_real_ranks_share_a_batch() -> None:
    """Two workers compute for their half, and then wait for each other."""
    pytest.importorskip("torch")
    job = JobToProfile([sys.executable, "-m", shared_ranks.__name__])
    with running(job, silent) as run:
        workers = measure_workers(run, (2,), 1.0, shared_job.BATCH, QUICK)
    assert list(workers.rates) == [(2, 6), (2, 12), (2, 24)]
    assert workers.compared == (2, 12)
    for (_, samples), found in workers.rates.items():
        least = shared_job.FIXED_CPU_SECONDS + samples * shared_job.SAMPLE_CPU_SECONDS
        assert 1 / found.steps_per_s > least + shared_ranks.EXCHANGE_CPU_SECONDS


@pytest.mark.needs_torch
def test_a_rank_that_fails_is_named() -> None:
    """What was measured of fewer workers is not lost."""
    pytest.importorskip("torch")
    job = JobToProfile([sys.executable, "-m", shared_ranks.__name__, "fails"])
    with running(job, silent) as run:
        workers = measure_workers(run, (2,), 1.0, shared_job.BATCH, QUICK)
    assert workers.rates == {}
    assert "rank 1 of 2 ended with status 1; it said last:\n  no second one" in workers.failed
    alone = replace(profiled(1.8, 0.02, 0.003, (2,)), workers=workers)
    assert model_of(alone, name="x", family="image", batch=None, source="a test").network is None
    (said,) = (line for line in remarks(alone, ["job"]) if line.startswith("More workers"))
    assert said == "More workers were not measured: the job " + workers.failed.replace("\n", " ")


def profiled(overlap: float, net: float, net_per_gpu: float, counts: tuple[int, ...]) -> Profile:
    """Without noise, of a step with this law."""

    def seconds(count: int, samples: int) -> float:
        communicates = net + net_per_gpu * (count - 2) if count > 1 else 0.0
        both = (FIXED + PER_SAMPLE * samples) ** overlap + communicates**overlap
        return float(both ** (1 / overlap))

    rates: dict[int, Rate] = {samples: rate(1 / seconds(1, samples)) for samples in (6, 12, 16, 24, 48)}
    points = [(n, BATCH // (n * share)) for n in counts for share in (4, 2, 1) if n * share <= 8]
    workers = WorkersProfile(1.0, {point: rate(1 / seconds(*point)) for point in points}, (2, 12), "", 60.0)
    compute = ComputeProfile(BATCH, 1, True, rates, 16, "", 60.0)
    cpus = {1.0: rate(5.0), 2.0: rate(1 / seconds(1, 48))}
    return Profile((1.0, 2.0), cpus, None, True, 60.0, 0.0, True, compute, workers)


@pytest.mark.parametrize("counts", [(2,), (2, 4)])
@pytest.mark.parametrize("overlap", [1.0, 1.8, 4.0])
def test_the_law_predicts_what_was_not_fitted(overlap: float, counts: tuple[int, ...]) -> None:
    profile = profiled(overlap, 0.02, 0.003, counts)
    assert profile.compute is not None
    assert profile.workers is not None
    fit = fit_of(profile.compute)
    assert fit is not None
    network = fit_network(fit.line, profile.workers)
    assert max(map(abs, network.off.values())) < 0.015
    assert network.overlap == pytest.approx(overlap, rel=0.1)
    assert network.local_seconds == pytest.approx(0.02, rel=0.05)
    if max(counts) == 4:
        assert network.local_seconds_per_gpu == pytest.approx(0.003, rel=0.2)


def test_the_file_has_the_network_of_one_machine(tmp_path: Path) -> None:
    profile = profiled(1.8, 0.02, 0.003, (2,))
    model = model_of(profile, name="x", family="image", batch=None, source="a test")
    path = tmp_path / "x.toml"
    path.write_text(model_toml(model, []), encoding="utf-8")
    read = read_model(path)
    assert read.network is not None
    assert read.network.measured is not None
    measured = {name: number for name, number in read.network.measured.items() if number is not None}
    assert measured["compute_seconds"] == pytest.approx(FIXED + PER_SAMPLE * BATCH)
    assert measured["local_seconds"] == pytest.approx(0.02, rel=0.1)
    assert [*measured] == ["compute_seconds", "local_seconds", "local_seconds_per_gpu", "overlap"]
    assert read.network.error.endswith(
        "local_seconds_per_gpu is assumed, as other applications have it on T4 GPUs"
    )
    assert "of 2 workers with 12 samples each, which was not fitted:" in read.network.error
    (note,) = read.notes
    assert "nothing is known of its network between machines" in note


def test_programs_read_all_of_it() -> None:
    profile = profiled(1.8, 0.02, 0.003, (2, 4))
    model = model_of(profile, name="x", family="image", batch=None, source="a test")
    points = document(profile, model, None, Path("x.toml"), [])["workers"]["points"]
    assert [(point["workers"], point["samples"], point["fitted"]) for point in points] == [
        (2, 6, True),
        (2, 12, False),
        (2, 24, True),
        (4, 6, True),
        (4, 12, True),
    ]
    assert np.abs([point["law_off_by"] for point in points]).max() < 0.015
