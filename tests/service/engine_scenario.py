"""Twelve training jobs on real daemons of an engine: preempted ones end as if never interrupted, where the record says.

`tests.slurm.test_scenario` and `tests.ray.test_scenario` say by whose account jobs ran where.
"""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, State, Submission
from tests.service.controller.restless import RESTLESS
from tests.service.controller.running import controller_process, wait_until_ended
from tests.service.controller.test_scenario import wait_until_some_learn
from tests.slurm.cluster import GPUS

GANG = Path(__file__).parents[2] / "examples" / "train_distributed.py"
TRAINER = Path(__file__).parents[1] / "slurm" / "regression_job.py"
WAVES = ((2, 140), (4, 110), (5, 80))
"""Jobs, and steps of each. With the gang they are twelve. A wave comes once two jobs of the one before it learn."""
GANG_EPOCHS = 30
TURN_SECONDS = 10.0


class PlacementAccount(Protocol):
    """An engine's own account of its jobs, kept while they ran."""

    contradictions: list[str]

    def placements(self, job: int) -> Sequence[object]:
        """Where a job ran, in the order of its starts."""
        ...


def check_scenario(
    home: Path,
    where: str,
    environment: Mapping[str, str],
    accounts: AbstractContextManager[PlacementAccount],
    recorded: Callable[[list[AllocationInterval]], Sequence[object]],
) -> None:
    """Run the jobs; AssertionError if a loss differs, or the record from the engine's account.

    `where` is the engine, as `run_controller` takes it; `recorded` says in the account's terms what the record says.
    """
    with ThreadPoolExecutor() as pool:
        lines = pool.map(last_line, [[sys.executable, str(TRAINER), str(steps)] for _, steps in WAVES])
        gang_alone = gang_without_muster()
        alone = dict(zip([steps for _, steps in WAVES], lines, strict=True))
    make_home(home)
    store = Store.open(store_url(home))
    kinds: dict[int, str] = {}
    given = {**environment, "PYTHONPATH": str(GANG.parents[1])}
    with (
        controller_process(
            home, RESTLESS, where, TURN_SECONDS, restart_cost=5.0, environment=given
        ) as process,
        accounts as account,
    ):
        (gang,) = store.submit([Submission(getpass.getuser(), a_gang())])
        kinds[gang] = gang_alone
        for count, steps in WAVES:
            wave = store.submit([Submission(getpass.getuser(), a_job(steps))] * count)
            kinds |= dict.fromkeys(wave, alone[steps])
            wait_until_some_learn(home, wave)
        wait_until_ended(store, list(kinds), process)
    preempted = 0
    for job, undisturbed in kinds.items():
        row = store.job(job)
        output = (job_folder(home, job) / "output" / "0.log").read_text()
        assert row is not None
        assert row.state is State.COMPLETED, (row, output)
        assert output.splitlines()[-1] == undisturbed
        ran, written = account.placements(job), recorded(intervals_with_processes(store, job))
        assert ran == written, f"job {job}: it ran on {ran}, and the record says {written}"
        preempted += row.preemptions > 0
    assert not account.contradictions, account.contradictions
    assert preempted >= 4
    store.close()


def intervals_with_processes(store: Store, job: int) -> list[AllocationInterval]:
    """What a job held, without starts that were stopped while they waited for their first process: they ran nowhere."""
    never = {event.time for event in store.events(job) if event.detail == "stopped before it had a process"}
    return [one for one in store.allocation_intervals(job) if one.until not in never]


def a_job(steps: int) -> JobRequest:
    """One process with all GPUs of a node, so that two jobs run at a time."""
    return of_script("regression", TRAINER, str(steps), gpus=GPUS, steps=steps)


def a_gang() -> JobRequest:
    """One rank on each of two nodes."""
    return of_script("gang", GANG, "--epochs", str(GANG_EPOCHS), gpus=2 * GPUS)


def of_script(name: str, script: Path, *arguments: str, gpus: int, steps: int | None = None) -> JobRequest:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(GANG.parents[1])}
    return JobRequest(
        name=name,
        command=(sys.executable, str(script), *arguments),
        directory=str(script.parent),
        environment=environment,
        checkpoint_seconds=5.0,
        gpus=gpus,
        steps=steps,
    )


def gang_without_muster() -> str:
    """The last line of the first of two processes that find each other as torchrun's do."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    found = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, str(GANG), "--epochs", str(GANG_EPOCHS)]
    ranks = [
        subprocess.Popen(
            command, env=undisturbed_environment() | found | {"RANK": rank}, stdout=subprocess.PIPE
        )
        for rank in ("0", "1")
    ]
    said = [rank.communicate()[0].decode() for rank in ranks]
    assert not any(rank.returncode for rank in ranks)
    return said[0].splitlines()[-1]


def undisturbed_environment() -> dict[str, str]:
    """Without Muster's variables, and with as many threads as under it."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return alone | {"OMP_NUM_THREADS": "1"}


def last_line(command: list[str]) -> str:
    done = subprocess.run(command, env=undisturbed_environment(), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]
