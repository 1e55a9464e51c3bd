"""Real training on a real Slurm: preempted jobs end as if never interrupted, where the record says that they ran."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import State, Submission
from tests.service.cli.daemons import open_folder
from tests.service.controller.restless import RESTLESS
from tests.service.controller.running import controller_process, wait_until_ended
from tests.service.controller.test_scenario import wait_until_some_learn
from tests.slurm.account import account_of, recorded_placements
from tests.slurm.cluster import GPUS, SlurmCluster

pytestmark = [pytest.mark.needs_slurm, pytest.mark.needs_torch, pytest.mark.unsteady]

GANG = Path(__file__).parents[2] / "examples" / "train_distributed.py"
TRAINER = Path(__file__).with_name("regression_job.py")
WAVES = ((2, 140), (4, 110), (5, 80))
"""Jobs, and steps of each. With the gang they are twelve. A wave comes once two jobs of the one before it learn."""
GANG_EPOCHS = 30
TURN_SECONDS = 10.0


def test_preempted_jobs_and_a_gang_end_as_if_undisturbed(slurm: SlurmCluster) -> None:
    pytest.importorskip("torch")
    alone = {steps: last_line([sys.executable, str(TRAINER), str(steps)]) for _, steps in WAVES}
    gang_alone = gang_without_muster()
    with open_folder(0o711) as folder:
        home = folder / "home"
        make_home(home)
        store = Store.open(store_url(home))
        kinds: dict[int, str] = {}
        environment = {**slurm.environment, "PYTHONPATH": str(GANG.parents[1])}
        with (
            controller_process(
                home, RESTLESS, "train", TURN_SECONDS, restart_cost=5.0, environment=environment
            ) as process,
            account_of(slurm) as account,
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
            assert account.placements(job) == recorded_placements(store.allocation_intervals(job))
            preempted += row.preemptions > 0
        assert not account.contradictions
        assert preempted >= 4
        store.close()


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
