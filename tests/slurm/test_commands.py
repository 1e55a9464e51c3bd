"""Slurm's commands as Muster runs them, against a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.cluster.slurm_nodes import read_slurm_site
from muster.service.engines.slurm.requests import change
from muster.service.engines.slurm.status import SlurmJob, read_details, read_jobs
from muster.slurm_commands import SlurmCommands, SlurmError, explained
from tests.slurm.cluster import SlurmCluster, wait_for

pytestmark = pytest.mark.needs_slurm


def submit(slurm: SlurmCluster, *options: str) -> int:
    """The number of a new job that holds GPUs for a second."""
    command = ["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 1"]
    return int(slurm.run(*command))


def job(commands: SlurmCommands, number: int) -> SlurmJob:
    """As squeue shows it."""
    return next(one for one in read_jobs(commands, "train") if one.number == number)


def test_a_held_job_is_read_with_its_comment_and_request(
    slurm: SlurmCluster, commands: SlurmCommands
) -> None:
    number = submit(slurm, "--hold", "--gpus=2", "--comment=muster: a b|c, d=e")
    found = job(commands, number)
    assert found.held
    assert found.is_whole
    assert found.comment == "muster: a b|c, d=e"
    assert found.values["tres-per-job"] in ("gres:gpu:2", "gres/gpu:2")
    assert found.submitted > 1.7e9


def test_any_name_and_comment_is_read_and_disturbs_no_job(
    slurm: SlurmCluster, commands: SlurmCommands
) -> None:
    hostile = "a\x1fb\r\n7\x1f" + 300 * "\u65e5" + "\nJobId=1 x"
    number = submit(slurm, "--hold", f"--job-name={hostile}", f"--comment={hostile}")
    after = submit(slurm, "--gpus=1")
    found = job(commands, number)
    assert (found.values["Name"], found.comment, found.held) == (hostile, hostile, True)
    assert job(commands, after).values["tres-per-job"] in ("gres:gpu:1", "gres/gpu:1")


def test_gpus_of_a_job_whose_name_has_a_newline_are_read(
    slurm: SlurmCluster, commands: SlurmCommands
) -> None:
    number = submit(slurm, "--gpus=2", "--job-name=a\nb")
    wait_for(lambda: job(commands, number).state != "PENDING", lambda: "it does not start")
    assert [len(here.gpu_ids) for here in read_details(commands)[number].values()] == [2]


def test_an_array_not_split_off_yet_is_not_whole(slurm: SlurmCluster, commands: SlurmCommands) -> None:
    assert not job(commands, submit(slurm, "--hold", "--array=1-3")).is_whole
    assert job(commands, submit(slurm, "--hold", "--dependency=afterok:1")).values["Dependency"]


def test_each_message_belongs_to_its_own_request(slurm: SlurmCluster, commands: SlurmCommands) -> None:
    first, second = submit(slurm, "--hold"), submit(slurm, "--hold")
    requests = [
        f"update jobid={first} ReqNodeList=node9",
        "release 99999",
        f"update jobid={second} Comment=kept",
    ]
    messages = change(commands, requests)
    assert "Invalid node name" in messages[0]
    assert "Invalid job id" in messages[1]
    assert messages[2] == ""
    assert job(commands, second).comment == "kept"


def test_another_account_reads_which_right_is_missing(slurm: SlurmCluster, commands: SlurmCommands) -> None:
    number = submit(slurm, "--hold")
    with as_account(65534):
        (message,) = change(commands, [f"release {number}"])
    assert "run Muster as root, as SlurmUser or as an operator" in message
    assert job(commands, number).held


def test_the_running_site_is_read_as_a_cluster(commands: SlurmCommands) -> None:
    site = read_slurm_site(commands.ask(["scontrol", "--oneliner", "show", "node"]), "scontrol", "site")
    assert [(node.name, node.gpus, node.gpu_type) for node in site.cluster.nodes] == [
        ("node1", 8, "v100"),
        ("node2", 8, "v100"),
    ]
    described = read_slurm_site(commands.ask(["sinfo", "--json"]), "sinfo", "site")
    assert described.cluster == site.cluster


def test_what_may_change_something_is_not_asked() -> None:
    with pytest.raises(ValueError, match="may change something"):
        SlurmCommands().ask(["scontrol", "release", "1"])


def test_a_command_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmError, match="squeue is not installed here"):
        read_jobs(SlurmCommands(), "train")


def test_a_missing_slurm_conf_is_named(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", slurm.environment["PATH"])
    missing = slurm.folder / "none.conf"
    with pytest.raises(SlurmError, match=f"no slurm.conf was found at {missing}. Hint: set SLURM_CONF"):
        SlurmCommands(str(missing)).ask(["squeue"])


@pytest.mark.parametrize("daemon", ["slurmctld", "munged"])
def test_a_daemon_that_is_down_is_a_named_error(
    slurm: SlurmCluster, commands: SlurmCommands, daemon: str
) -> None:
    slurm.kill(daemon)
    try:
        with pytest.raises(SlurmError, match=r"took longer than 5 s.*munged"):
            read_jobs(commands, "train")
        with pytest.raises(SlurmError, match=r"took longer than 5 s.*munged"):
            change(commands, ["release 1"])
    finally:
        slurm.start(daemon)
        slurm.wait_ready()


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
        "slurm_load_node error: Connection reset by peer",
        "slurm_load_jobs error: Unexpected missing socket error",
    ],
)
def test_what_a_dying_slurmctld_leaves_has_one_meaning(said: str) -> None:
    """All that squeue and scontrol have said while it was killed."""
    assert SlurmError(explained(said)).cause.startswith("slurmctld cannot be reached. Hint: scontrol ping")


@contextmanager
def as_account(number: int) -> Iterator[None]:
    """Act as another account for a while."""
    os.setresgid(number, number, 0)
    os.setresuid(number, number, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
