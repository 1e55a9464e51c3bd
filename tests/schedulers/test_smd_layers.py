"""Layer profiles from a file for the jobs of a trace, and rings beside servers, through whole runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.recurrence import iteration_ends
from muster.cli.app import run as muster
from muster.problems import InputError
from muster.speed.network.layers import read_layers
from muster.speed.parameter_server.architectures import estimated_layers
from muster.speed.parameter_server.profile import profiled_layers
from muster.speed.parameter_server.step_time import layered, with_fewer_terms
from muster.workload.trace import write_trace
from tests.building import column, finishes, jobs_of, run
from tests.schedulers.smd_cases import machines, sized_job, trace_of_seed

HEADER = "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes,batch\n"
MINE = HEADER + "mine,4e8,0,2e8,2e7,64\nmine,8e8,3e8,3e8,4e8,64\nmine,1e8,1e8,1e8,1e8,64\n"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "layers.csv"
    path.write_text(MINE)
    return path


def test_a_profiled_model_runs_at_the_pace_of_its_recurrence(profile: Path) -> None:
    layers = profiled_layers(profile, "mine")
    np.testing.assert_allclose(layers.forward_seconds_per_sample * 64, [0.4, 0.8, 0.1])
    result = run(jobs_of(sized_job(model="mine")), machines(3), "smd", layers=read_layers(profile))
    best = min(
        iteration_ends(layers, 256, 0.5, w, p)[0] for w, p in itertools.product(range(1, 5), range(1, 5))
    )
    assert finishes(result) == pytest.approx([1000 * best])


def test_a_model_without_a_profile_runs_at_6_tflops() -> None:
    """The step time of the scheduler merges layers, so it is near the recurrence and not equal to it."""
    layers = estimated_layers("vgg11", 6.0)
    result = run(jobs_of(sized_job(model="vgg11")), machines(3), "smd")
    best = min(
        iteration_ends(layers, 256, 0.5, w, p)[0] for w, p in itertools.product(range(1, 5), range(1, 5))
    )
    assert finishes(result) == pytest.approx([1000 * best], rel=0.02)


def test_no_batch_and_an_unknown_model_are_refused(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text(MINE.replace(",batch", "").replace(",64\n", "\n"))
    trace = jobs_of(sized_job(model="mine"), sized_job(model="yours"))
    with pytest.raises(InputError) as refused:
        run(trace, machines(1), "smd", layers=read_layers(tmp_path / "bare.csv"))
    assert "batch: found 'mine'" in str(refused.value)
    assert "found 'yours'; its layers are not known" in str(refused.value)
    profile.write_text(MINE.replace("1e8,64", "1e8,32"))
    with pytest.raises(InputError, match="the same in all its rows"):
        read_layers(profile)


def test_the_command_takes_layers_and_certifies_a_mixed_trace(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [sized_job(model="mine"), sized_job(sync="ring", servers=None, server_cpus=None)]
    write_trace(jobs_of(*rows), tmp_path / "jobs.csv")
    arguments = (
        f"--cluster smd --scheduler smd --scheduler optimus --layers {profile} --certify --json".split()
    )
    assert muster(["compare", str(tmp_path / "jobs.csv"), *arguments, "--out", str(tmp_path / "out")]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert [summary["unfinished"] for summary in reply["summaries"]] == [0, 0]
    assert all(summary["below_best"]["mean"] is not None for summary in reply["summaries"])


def test_rings_and_servers_are_selected_together() -> None:
    """In a cluster that is too small for all, both kinds are served, none holds the other's kind of task."""
    trace = trace_of_seed(11, jobs=20, ring=0.5)
    result = run(trace, machines(2, gpus=8, cpus=64), "smd", {"interval_seconds": "3600"})
    assert result.unfinished == 0
    held = result.record.allocations.join(trace.jobs.select("job_id", "sync"), on="job_id")
    assert set(held.filter(sync="ring")["role"]) == {"worker"}
    assert set(held.filter(sync="ps")["role"]) == {"worker", "server"}
    assert {"ring", "ps"} == set(trace.jobs["sync"])
    assert len(column(result, "finish_seconds")) == 20


def test_many_terms_are_thinned_by_the_least_that_is_lost() -> None:
    rng = np.random.default_rng(0)
    b = np.sort(rng.uniform(0, 1, 30))[::-1]
    c = np.cumsum(np.sort(rng.uniform(0, 1, 30)))
    layers_like = np.column_stack([np.ones(30), b.cumsum()[::-1] / 10, c])
    thinned = with_fewer_terms(layers_like, 8)
    assert len(thinned) == 8
    np.testing.assert_array_equal(thinned[[0, -1]], layers_like[[0, -1]])
    load = np.geomspace(1e-3, 1e3, 200)
    full, fewer = (
        (terms[:, 1, None] + terms[:, 2, None] * load).max(axis=0) for terms in (layers_like, thinned)
    )
    assert (fewer <= full + 1e-12).all()
    assert (fewer >= 0.97 * full).all()


def test_real_models_need_no_thinning() -> None:
    for name in ("alexnet", "vgg16", "resnet152", "bert-large"):
        for nic in (0.05, 0.5, 5.0):
            assert len(layered(estimated_layers(name, 6.0), 256, nic).terms) <= 8
