"""Real jobs get what their owners ask for, and are ended at their time limits."""

from __future__ import annotations

import getpass
from pathlib import Path

from muster.formatting import duration
from muster.service.home import make_home, store_url
from muster.service.store import Store
from muster.service.store.rows import State, Submission
from tests.service.serving import a_request

from .running import controller_process, wait_until_ended


def test_owners_get_what_they_ask_for(tmp_path: Path) -> None:
    """On 2 GPUs, 2 CPUs and 2 GB: more memory than a GPU's share, no GPU at all, and a time limit."""
    home = tmp_path / "home"
    make_home(home)
    store = Store.open(store_url(home))
    with controller_process(home, "las+tune-plus", 2) as process:
        requests = [
            a_request(name="memory", memory_gb=1.5),
            a_request(name="own", own_memory_gb=1.2),
            a_request(name="without", gpus=0, cpus=0.5, memory_gb=0.2),
            a_request(name="endless", command=("sleep", "600"), time_limit_seconds=2.0),
        ]
        ids = store.submit([Submission(getpass.getuser(), request) for request in requests])
        wait_until_ended(store, ids, process)
        rows = {row.request.name: row for row in store.jobs()}
        held = {interval.job: interval.allocation for interval in store.allocation_intervals()}
    assert {name: row.state for name, row in rows.items()} == {
        "memory": State.COMPLETED,
        "own": State.COMPLETED,
        "without": State.COMPLETED,
        "endless": State.TIMED_OUT,
    }
    assert held[rows["memory"].id].memory_gb >= 1.5 - 1e-6
    assert held[rows["own"].id].memory_gb >= 1.2 - 1e-6
    without = held[rows["without"].id]
    assert (without.gpu_ids, without.cpus, without.memory_gb) == ((), 0.5, 0.2)
    endless = rows["endless"]
    assert endless.message == f"its time limit of {duration(2.0)} is over"
    assert (endless.preemptions, endless.run_seconds >= 2.0) == (0, True)
