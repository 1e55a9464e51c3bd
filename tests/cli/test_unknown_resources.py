"""What no job says anything about: a note, and no figure for its use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import TRACE, Outcome

Muster = Callable[..., Outcome]
CLUSTER = ("--cluster", "1x8gpu,24cpu,500gb,1gb/s")


def with_column(path: Path, name: str, value: str) -> Path:
    """The five jobs with one more column, in which the first alone states something."""
    header, first, *jobs = TRACE.splitlines()
    path.write_text("\n".join([f"{header},{name}", f"{first},{value}", *(f"{job}," for job in jobs)]) + "\n")
    return path


def test_a_trace_of_gpus_alone_says_what_cannot_matter(muster: Muster, trace: Path, tmp_path: Path) -> None:
    done = muster("simulate", trace, *CLUSTER, "--out", tmp_path / "out", "--json")
    assert done.status == 0
    assert "no job names a known model or requests CPUs or memory: they cannot change this result" in done.err
    use = json.loads(done.out)["summary"]["utilization"]
    assert use.pop("gpu") > 0
    assert use == {"cpu": None, "memory": None, "storage": None}


@pytest.mark.parametrize(
    ("column", "value", "known"),
    [
        ("model", "resnet18", {"cpu", "memory", "storage"}),
        ("cpus", "1", {"cpu"}),
        ("memory_gb", "1", {"memory"}),
        ("model", "unheard-of", set()),
    ],
)
def test_use_is_reported_where_a_job_states_something(
    muster: Muster, tmp_path: Path, column: str, value: str, known: set[str]
) -> None:
    trace = with_column(tmp_path / "trace.csv", column, value)
    done = muster("simulate", trace, *CLUSTER, "--out", tmp_path / "out", "--json")
    assert done.status == 0, done.err
    use = json.loads(done.out)["summary"]["utilization"]
    assert {name for name, share in use.items() if share is not None} == known | {"gpu"}
    assert ("cannot change this result" in done.err) == (not {"cpu", "memory"} <= known)
