"""The commands of `make demo`, with fewer jobs: they run, and the page begins with what the default scheduler gains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.schedulers.registry import build

ROOT = Path(__file__).parents[2]


def test_the_demo_compares_the_default_scheduler(tmp_path: Path) -> None:
    make = ["make", "--dry-run", "--always-make", "demo", f"BIN={Path(sys.executable).parent}"]
    recipe = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = recipe.replace("\\\n", " ").splitlines()
    commands = [line for line in lines if "muster generate" in line or "muster compare" in line]
    assert len(commands) == 2
    for command in commands:
        smaller = command.replace("--jobs 1000", "--jobs 40").replace("demo/", f"{tmp_path}/")
        done = subprocess.run(["bash", "-c", smaller], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "result" / "comparison.json").read_text())["runs"]
    summaries = [json.loads((tmp_path / "result" / run / "summary.json").read_text()) for run in runs]
    assert runs == ["slurm-like", "fifo", "las+proportional+consolidate", DEFAULT_SCHEDULER]
    assert [(one["completed"], one["unfinished"]) for one in summaries] == [(40, 0)] * 4
    page = (tmp_path / "result" / "report.html").read_text()
    assert page.index('class="finding"') < page.index("<svg")


def test_slurm_like_preempts_nothing_by_default() -> None:
    described = build("slurm-like").describe()
    assert described["parts"] == {
        "queue_order": "priority",
        "allocation": "requested",
        "placement": "consolidate",
    }
    assert described["settings"]["preemptive"] is False
    assert build("slurm-like", {"preemptive": "true"}).describe()["settings"]["preemptive"] is True
