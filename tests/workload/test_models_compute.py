"""What a model file says of compute apart from the input stage."""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pytest

from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from tests.building import cluster_of
from tests.speed.test_worker_options import options_of
from tests.workload.test_models import GOOD, read, refused

WAITS = "[compute]\nfixed_samples = 64\nseconds = 0.1\n"
"""GOOD's fastest iteration takes 1/3 s."""


def test_a_job_that_always_waits_computes_for_less(tmp_path: Path) -> None:
    waits, plain = read(tmp_path, GOOD + WAITS), read(tmp_path, GOOD)
    assert waits.compute_seconds == 0.1
    assert plain.compute_seconds == pytest.approx(1 / 3)
    table = model_table([waits, plain])
    for cpus in (0.5, 2.0, 4.0, 16.0):
        here, there = (relative_speed(table, number, cpus, 50.0, inf) for number in (0, 1))
        assert here == there, "its iterations are those of the matrix"
    # On two GPUs each prepares half of the samples, and computes for its fixed half and a quarter.
    found = options_of(waits, 1, [1, 2], cluster_of(2))
    assert found.compute_seconds.tolist() == pytest.approx([0.1, 0.075])
    input_seconds = found.input_seconds(np.full(2, 4.0), np.full(2, 50.0), np.full(2, inf))
    assert input_seconds.tolist() == pytest.approx([1 / 3, 1 / 6])


def test_a_gpu_slow_enough_slows_a_job_that_waits(tmp_path: Path) -> None:
    """Its GPU could make 5 times the reference's iterations: at a half 2.5, at a fifth 1."""
    types = "[gpu_types.half]\ncompute_scale = 0.5\n[gpu_types.fifth]\ncompute_scale = 0.2\n"
    entry = read(tmp_path, GOOD + WAITS + types + "[gpu_types.twice]\ncompute_scale = 2\n")
    for same in ("half", "twice"):
        assert entry.speed_on(same) == pytest.approx(np.array(entry.speed))
    assert entry.speed_on("fifth") == pytest.approx(np.minimum(entry.speed, 1.0))


def test_a_job_that_waits_computes_by_the_scale_of_its_gpus(tmp_path: Path) -> None:
    """Also on GPUs where its iterations take as long, because it still waits: on other sizes compute counts."""
    types = "".join(
        f"[gpu_types.{name}]\ncompute_scale = {scale}\n"
        for name, scale in (("half", 0.5), ("fifth", 0.2), ("twice", 2), ("other", 0.25))
    )
    entry = read(tmp_path, f'gpu_type = "v100"\n{GOOD}{WAITS}{types}')
    names = ("V100", "HALF", "fifth", "twice", "k80")
    table = model_table([entry], names)
    seconds = table["compute_seconds"][table["on_type"][0][: len(names)]]
    assert seconds.tolist() == pytest.approx([0.1, 0.2, 0.5, 0.05, 0.4])
    # A model that does not always wait computes at its best speed, as before.
    plain = model_table([read(tmp_path, GOOD + types)], names[1:4])
    assert plain["compute_seconds"][plain["on_type"][0][:3]].tolist() == pytest.approx([2 / 3, 5 / 3, 1 / 3])


def test_compute_is_not_longer_than_an_iteration(tmp_path: Path) -> None:
    wrong = GOOD + WAITS.replace("0.1", "0.4")
    (said,) = refused(tmp_path, wrong)
    assert said.endswith(
        "found 0.4; allowed: at most 0.333333, the seconds of the fastest iteration of speed"
    )
    (said,) = refused(tmp_path, GOOD + WAITS.replace("0.1", "0"))
    assert said.endswith(
        "found 0; allowed: a number above 0 (seconds of a pass over batch samples that waits for no input)"
    )
    network = '[network]\nsource = "x"\nlicence = "x"\nerror = "x"\n[network.measured]\ncompute_seconds = 1\n'
    network += (
        "local_seconds = 0\nlocal_seconds_per_gpu = 0\nuplink_seconds = 0\nuplink_seconds_per_gpu = 0\n"
    )
    network += "overlap = 1\nnic_gb_per_s = 1\n"
    (said,) = refused(tmp_path, 'name = "x"\nbatch = 1\nsource = "x"\nlicence = "x"\n' + WAITS + network)
    assert "compute.seconds: found 0.1; without speed they are compute_seconds of [network]" in said


@pytest.mark.parametrize("field", ["source", "error"])
def test_a_wrong_text_of_a_table_is_at_its_own_line(tmp_path: Path, field: str) -> None:
    """Not at that of the same field above it."""
    above = '[efficiency]\nprogress = [0]\nnoise_scale = [9]\nsource = "x"\nlicence = "x"\nerror = "x"\n'
    text = f"{GOOD}{above}{WAITS}{field} = 3\n"
    (said,) = refused(tmp_path, text)
    row = text.splitlines().index(f"{field} = 3") + 1
    assert said.startswith(f"model.toml:{row}: compute.{field}: found 3; allowed: a sentence in quotes")
