"""A scheduler is found by its name, and only what it consists of is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.schedulers import registry
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.schedulers.registry import build


def test_the_source_of_each_shipped_part_states_its_name() -> None:
    shipped = {**registry._shipped(), **registry._shipped_whole()}
    assert set(registry._stated()) == set(shipped)
    for name, kind in shipped.items():
        assert registry._shipped_kind(name) is kind


def test_a_part_whose_source_does_not_state_its_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"las": "muster.schedulers.queue_order.fifo"}
    monkeypatch.setattr(registry, "_stated", lambda: wrong)
    assert build("las+proportional+first-fit").name == "las+proportional+first-fit"


SELDOM = ("leased", "certify", "time_sharing.gandiva")


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("fifo", (*SELDOM, "workers_and_servers.interval", "allocation.tune", "admission.knapsack")),
        (DEFAULT_SCHEDULER, (*SELDOM, "allocation.opt", "allocation.tune_plus", "queue_order.las")),
        ("smd", (*SELDOM, "allocation.tune", "queue_order.fifo")),
    ],
)
def test_what_a_scheduler_does_not_need_is_not_imported(name: str, absent: tuple[str, ...]) -> None:
    code = (
        "import sys, muster.simulation; from muster.schedulers.registry import build\n"
        f"build({name!r}); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    modules = set(done.stdout.split())
    assert "muster.schedulers.registry" in modules
    assert not modules & {f"muster.schedulers.{module}" for module in absent}
