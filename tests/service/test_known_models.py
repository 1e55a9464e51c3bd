"""Models that come, change and go while a daemon serves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from muster.cluster.shipped import parse_cluster
from muster.schedulers.contract import Jobs
from muster.service.controller.columns import LiveColumns
from muster.service.home import make_home, models_folder
from muster.service.known_models import KnownModels
from muster.service.store.rows import JobRow

from .serving import a_request

SHIPPED = Path(__file__).parents[2] / "muster" / "workload" / "model_files" / "resnet18.toml"


def measured(home: Path, name: str, slower: float, at: int) -> None:
    """As `muster profile` leaves it."""
    lines = []
    for line in SHIPPED.read_text().splitlines():
        if line.startswith("name ="):
            line = f'name = "{name}"'
        elif line.startswith("seconds_per_iteration"):
            key, _, value = line.partition("=")
            line = f"{key}= {float(value) * slower}"
        if not line.startswith("aliases"):
            lines.append(line)
    path = models_folder(home) / f"{name}.toml"
    path.write_text("\n".join(lines))
    os.utime(path, ns=(at, at))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_home(tmp_path / "home")
    return tmp_path / "home"


def test_an_unreadable_file_is_left_out_with_one_warning(home: Path) -> None:
    known = KnownModels(home)
    before = known.all()
    (models_folder(home) / "lost.toml").symlink_to(home / "nowhere.toml")
    (models_folder(home) / "broken.toml").write_text("this is no model")
    with capture_logs() as logs:
        now = known.all()
        assert known.all() is now
    assert now == before
    assert sorted(Path(line["file"]).name for line in logs) == ["broken.toml", "lost.toml"]


def test_the_same_files_are_the_same_mapping(home: Path) -> None:
    known = KnownModels(home)
    assert known.all() is known.all()
    measured(home, "mine", 1.0, 1)
    first = known.all()
    assert "mine" in first
    assert known.all() is first


def test_what_is_profiled_again_counts_from_the_next_arrival_on(home: Path) -> None:
    """For the job that waits too; a link that leads nowhere does the controller no harm."""
    known = KnownModels(home)
    measured(home, "mine", 1.0, 1)
    columns = LiveColumns(parse_cluster("1x2gpu,8cpu,100gb"), known.all)

    def comes(job: int, **fields: object) -> None:
        columns.admit([JobRow(job, "ann", a_request(steps=1000, **fields), 0.0)])

    def left(job: int) -> float:
        return float(Jobs(columns.table, np.array([job]), 0.0).estimated_remaining[0])

    comes(1, model="mine")
    before = left(1)
    assert before > 0
    measured(home, "mine", 3.0, 2)
    (models_folder(home) / "lost.toml").symlink_to(home / "nowhere.toml")
    comes(2, model="lost")
    assert np.isnan(left(2))
    assert left(1) == pytest.approx(3 * before)
    comes(3, model="mine")
    assert left(3) == left(1)
