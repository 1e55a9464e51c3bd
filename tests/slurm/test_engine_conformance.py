"""The Slurm engine keeps the promises of the interface, on a real Slurm."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.cluster.slurm_nodes import read_slurm_site
from muster.service.engines import AdoptJob, CloseJob, Exit, Launch, Observed, ResizeStart, StartRefused
from muster.service.engines.registry import engine_factory
from muster.service.engines.slurm.engine import SlurmEngine
from muster.service.engines.slurm.outcome import LIVING
from muster.service.engines.slurm.status import SlurmJob, read_jobs
from muster.slurm_commands import SlurmCommands, SlurmError
from tests.service.engines.conformance import Case, EngineConformance, Work
from tests.slurm.cluster import SlurmCluster, mounted

pytestmark = pytest.mark.needs_slurm


class SlurmCase(Case):
    """A partition of a Slurm that several cases share; each has its own mark on its jobs."""

    def __init__(self, folder: Path, commands: SlurmCommands) -> None:
        self.factory = engine_factory("slurm")
        self._folder, self._commands = folder, commands
        self._whose = secrets.token_hex(4)
        nodes = commands.ask(["scontrol", "--oneliner", "show", "node"])
        self._cluster = read_slurm_site(nodes, "scontrol", "train").cluster
        self.reopen()

    def reopen(self) -> None:
        self.engine = SlurmEngine(
            self._folder / "engine",
            "train",
            self._cluster,
            self._commands,
            lambda _, whose: whose == self._whose,
        )

    def launch_of(self, job: int, epoch: int, work: Work) -> Launch:
        command = ("sleep", "600") if work is Work.ENDLESS else ("true",)
        return Launch(
            job=job,
            epoch=epoch,
            run_dir=self._folder / str(job) / "run",
            output_dir=self._folder / str(job) / "output",
            command=command,
            directory=self._folder,
            environment={},
            allocations=(NodeAllocation(f"node{1 + job % 2}", (job % 8,), 1.0, 1.0),),
            ranks=(1,),
            user=None,
            whose=self._whose,
        )

    def now(self) -> float:
        return time.time()

    def pause(self) -> None:
        time.sleep(0.1)

    def slurm_jobs(self) -> list[SlurmJob]:
        """The jobs in Slurm of this case, by number."""
        rows = read_jobs(self._commands, "train")
        return [row for row in rows if row.comment.startswith(f"muster:{self._whose}:")]

    def slurm_job(self) -> SlurmJob:
        """The newest of them."""
        return self.slurm_jobs()[-1]

    def clear(self) -> None:
        """End what still runs."""
        for one in self.starts():
            if one.ended is None:
                self.kill(one.job, one.epoch)
        for one in self.starts():
            self.end(one.job, one.epoch)


class TestSlurmEngine(EngineConformance):
    @pytest.fixture
    def case(self, commands: SlurmCommands) -> Iterator[SlurmCase]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o711)
            case = SlurmCase(Path(folder), commands)
            yield case
            case.clear()

    def test_the_next_start_of_a_job_that_ran_long_lives(self, case: SlurmCase) -> None:
        """Slurm changes the time of submission with a requeue, in whole seconds."""
        case.launch(1)
        case.until(lambda: not case.observed(1).pending, "its first process")
        began = time.time()
        case.until(lambda: time.time() - began > 1.0, "another second")
        case.kill(1)
        case.end(1)
        case.launch(1, epoch=2)
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        assert case.observed(1, epoch=2).ended is None

    @pytest.mark.parametrize("is_new", [False, True], ids=["same daemon", "new daemon"])
    def test_no_start_is_released_in_the_second_of_an_end(self, case: SlurmCase, is_new: bool) -> None:
        """slurmd refuses a job that slurmctld begins in the second in which it has ended the job's last run."""
        case.launch(1)
        case.until(lambda: not case.observed(1).pending, "its first process")
        case.until(lambda: time.time() % 1.0 < 0.1, "a second's beginning")
        case.kill(1)
        case.end(1)
        ended = case.slurm_job().ended
        if is_new:
            case.reopen()
        case.launch(1, epoch=2)
        assert time.time() >= ended + 1.0
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        assert case.observed(1, epoch=2).ended is None

    def test_a_start_waits_for_no_login_shell_and_sees_no_secret(
        self, case: SlurmCase, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where `su - USER` never ends, as with a profile that waits for a lock that no process holds."""
        monkeypatch.setenv("MUSTER_TOKEN", "secret of the daemon")
        (tmp_path / "profile").write_text("sleep 600\n")
        profile = Path("/etc/profile")
        mount = f"mount --bind {tmp_path}/profile {profile}"
        with mounted(slurm.processes["node2"].pid, mount, profile):
            case.launch(1, work=Work.SHORT)
            number = str(case.slurm_job().number)
            assert case.end(1).ended is Exit.COMPLETED
        state = slurm.folder / "state" / f"hash.{int(number) % 10}" / f"job.{number}"
        assert b"secret" not in (state / "environment").read_bytes()

    def test_a_job_that_slurm_requeues_is_held_at_once(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """As Slurm does where a node dies; it would begin again by itself, on what others have by then."""
        case.launch(1)
        case.until(lambda: not case.observed(1).pending, "its first process")
        number = str(case.slurm_job().number)
        slurm.run("scontrol", "requeue", number)
        seen: list[Observed] = []

        def has_ended() -> bool:
            seen.append(case.observed(1))
            return seen[-1].ended is not None

        case.until(has_ended, "its end")
        assert seen[-1].ended is Exit.LOST
        assert not any(one.pending for one in seen)  # It has run: the seconds count.
        assert case.slurm_job().held
        case.launch(1, epoch=2)
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        assert str(case.slurm_job().number) == number

    @pytest.mark.parametrize("requeued", [False, True], ids=["runs on", "requeued"])
    def test_a_start_that_begins_while_it_is_taken_back_is_no_end(
        self, case: SlurmCase, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch, requeued: bool
    ) -> None:
        """Slurm says yes to the order to hold a job that has begun since the poll, and lets it run.

        If it is requeued, as where its node fails, it is held by that order of Muster.
        """
        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        case.launch(1)
        case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
        done = SlurmCommands.done
        held: list[str] = []

        def begun_before(commands: SlurmCommands, command: Sequence[str], *more: Any, **named: Any) -> Any:
            if not (more and more[0].startswith("hold ") and not held):
                return done(commands, command, *more, **named)
            held.append(more[0])
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")
            case.until(lambda: case.slurm_job().state == "RUNNING", "its first process")
            printed = done(commands, command, *more, **named)
            if requeued:
                slurm.run("scontrol", "requeue", str(case.slurm_job().number))
            return printed

        with monkeypatch.context() as patch:
            patch.setattr(SlurmCommands, "done", begun_before)
            case.signal(1, 1)
            ended = case.end(1)
        assert held
        assert ended.ended is Exit.STOPPED
        assert ended.message == ("requeued and held in Slurm" if requeued else "")
        assert (case.slurm_job().state not in LIVING) is not requeued

    @pytest.mark.parametrize("runs", [True, False], ids=["begun again", "waiting"])
    def test_a_start_that_slurmctld_forgets_is_lost(
        self, case: SlurmCase, slurm: SlurmCluster, tmp_path: Path, runs: bool
    ) -> None:
        """It may not know what happened in the seconds before it died. Then it counts no restart."""

        def node2(state: str) -> None:
            slurm.run("scontrol", "update", "nodename=node2", f"state={state}", "reason=test")

        def begins(at: str) -> None:
            slurm.run("scontrol", "update", f"jobid={case.slurm_job().number}", f"StartTime={at}")

        node2("drain")
        case.launch(1)
        case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
        begins("now+1hour")
        node2("resume")
        slurm.kill("slurmctld", signal.SIGTERM)
        shutil.copytree(slurm.folder / "state", tmp_path / "state")
        slurm.start("slurmctld")
        slurm.wait_ready()
        begins("now")
        case.until(lambda: not case.observed(1).pending, "its first process")
        began = case.slurm_job().started
        case.until(lambda: time.time() - began > 1.0, "another second")
        slurm.kill("slurmctld")
        shutil.copytree(tmp_path / "state", slurm.folder / "state", dirs_exist_ok=True)
        slurm.start("slurmctld")
        slurm.wait_ready()
        if runs:
            begins("now")
        ended = case.end(1)
        assert ended.ended is Exit.LOST
        failed = "Slurm could not launch it"  # Its node may still have the first run; it is drained for that.
        allowed = {"slurmctld was restarted and has forgotten this start", *([failed] if runs else [])}
        assert ended.message in allowed
        case.until(lambda: case.slurm_job().held, "that it is held")
        assert len(case.slurm_jobs()) == 1

        def idle_again() -> bool:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume", check=False)
            return slurm.run("sinfo", "-h", "-n", "node2", "-o", "%T").strip() == "idle"

        case.until(idle_again, "that its node is idle")

    def test_a_start_that_an_administrator_moves_is_lost(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """To another node than it was given, before it begins. The next one is where Muster has placed it."""
        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            number = str(case.slurm_job().number)
            slurm.run("scontrol", "update", f"jobid={number}", "ReqNodeList=node1")
            end = case.end(1)
        finally:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")
        assert (end.ended, end.message) == (Exit.LOST, "moved to node1 in Slurm, not by Muster")
        case.launch(1, epoch=2)
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        assert (str(case.slurm_job().number), case.slurm_job().nodes) == (number, ["node2"])

    @pytest.mark.parametrize("carried_out", [True, False], ids=["carried out", "lost"])
    def test_a_moved_start_is_lost_without_an_answer_too(
        self, case: SlurmCase, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch, carried_out: bool
    ) -> None:
        """An order that timed out may have had its effect or not."""
        done = SlurmCommands.done
        orders: list[str] = []

        def unanswered_once(commands: SlurmCommands, command: Sequence[str], *more: Any, **named: Any) -> Any:
            first = bool(more) and more[0].startswith("requeuehold ") and not orders
            orders.extend(more[:1] if first else ())
            if not first or carried_out:
                printed = done(commands, command, *more, **named)
            if first:
                raise SlurmError("scontrol took longer than 5 s")
            return printed

        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            slurm.run("scontrol", "update", f"jobid={case.slurm_job().number}", "ReqNodeList=node1")
            with monkeypatch.context() as patch:
                patch.setattr(SlurmCommands, "done", unanswered_once)
                with pytest.raises(SlurmError, match="took longer"):
                    case.end(1)
                if carried_out:  # The next daemon finds the effect.
                    case.reopen()
                end = case.end(1)
        finally:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")
        assert (end.ended, end.message) == (Exit.LOST, "moved to node1 in Slurm, not by Muster")
        case.until(lambda: case.slurm_job().held, "that it is held")

    def test_a_moved_start_that_slurm_does_not_requeue_is_named(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """It goes on where it is."""
        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            number = str(case.slurm_job().number)
            slurm.run("scontrol", "update", f"jobid={number}", "ReqNodeList=node1", "Requeue=0")
            case.until(lambda: case.engine.poll().untaken, "that it is named")
        finally:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")
        (named,) = case.engine.poll().untaken
        assert named.words.startswith("nodes: found node1; allowed: node2, where Muster placed it. ")
        assert case.observed(1).ended is None
        slurm.run("scontrol", "update", f"jobid={number}", "Requeue=1")
        end = case.end(1)
        assert (end.ended, end.message) == (Exit.LOST, "moved to node1 in Slurm, not by Muster")
        assert not case.engine.poll().untaken

    def test_a_start_in_another_partition_is_no_lost_one(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """An administrator moves it while it waits. A second job for it would run beside it."""
        slurm.run("scontrol", "create", "PartitionName=other", "Nodes=ALL", "State=UP")
        slurm.run("scontrol", "update", "PartitionName=train", "State=DOWN")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            number = case.slurm_job().number
            slurm.move(str(number), "other")
            case.until(lambda: not case.observed(1).pending, "its first process")
        finally:
            slurm.run("scontrol", "update", "PartitionName=train", "State=UP")
        assert case.observed(1).ended is None
        case.kill(1)
        assert case.end(1).ended is Exit.STOPPED
        slurm.run("scontrol", "delete", "PartitionName=other")

    @pytest.mark.parametrize("is_new", [False, True], ids=["same daemon", "new daemon"])
    def test_a_held_job_in_another_partition_is_used_again(
        self, case: SlurmCase, slurm: SlurmCluster, is_new: bool
    ) -> None:
        """An administrator moves it between two starts. A second job for it could run beside it later."""
        slurm.run("scontrol", "create", "PartitionName=other", "Nodes=ALL", "State=UP")
        try:
            case.launch(1)
            case.until(lambda: not case.observed(1).pending, "its first process")
            number = case.slurm_job().number
            slurm.run("scontrol", "requeuehold", str(number))
            case.end(1)
            case.until(lambda: case.slurm_job().held, "that it is held")
            slurm.move(str(number), "other")
            if is_new:
                case.forget(1)
                case.reopen()
            case.engine.poll()

            def is_launched() -> bool:
                try:
                    case.launch(1, 2)
                except StartRefused:  # 24.11 may refuse the change of partition for a moment.
                    return False
                return True

            case.until(is_launched, "its second launch")
            case.until(lambda: not case.observed(1, 2).pending, "its second run")
            assert case.slurm_job().number == number
            case.kill(1, 2)
            case.end(1, 2)
        finally:
            slurm.run("scontrol", "delete", "PartitionName=other", check=False)

    def test_a_run_that_its_owner_ends_is_as_long_as_in_slurm(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """Also where no daemon looks for seconds."""
        case.launch(1)
        case.until(lambda: not case.observed(1).pending, "its first process")
        slurm.run("scontrol", "requeuehold", str(case.slurm_job().number))
        case.until(lambda: case.slurm_job().held, "that it is held")
        held = time.time()
        case.until(lambda: time.time() > held + 3.0, "seconds without a look")
        case.reopen()
        assert case.end(1).since <= held + 1.0

    def changed_while_it_waits(self, case: SlurmCase, slurm: SlurmCluster, *settings: str) -> None:
        """Launch a start; an administrator changes its job before it begins."""
        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            slurm.run("scontrol", "update", f"jobid={case.slurm_job().number}", *settings)
        finally:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")

    def test_amounts_that_an_administrator_changes_are_reported(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """They are the job's own, not held by others. The next start has what Muster gives it."""
        settings = ("CPUsPerTask=3", "NumCPUs=3", "MinCPUsNode=3", "MinMemoryNode=2000")
        self.changed_while_it_waits(case, slurm, *settings)
        case.until(lambda: not case.observed(1).pending, "its first process")
        case.reopen()
        (held,) = case.observed(1).allocations or ()
        assert (held.node, len(held.gpu_ids), held.cpus, held.memory_gb) == ("node2", 1, 3.0, 2.097152)
        assert [node.others for node in case.engine.poll().nodes] == [None, None]
        case.kill(1)
        case.end(1)
        case.launch(1, epoch=2)
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        (held,) = case.observed(1, epoch=2).allocations or ()
        assert (held.cpus, held.memory_gb) == (1.0, 1.0)

    def test_other_gpus_than_given_are_a_lost_start(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """They are not in the plan; the next start has those that are."""
        self.changed_while_it_waits(case, slurm, "TresPerNode=gres:gpu:3")
        end = case.end(1)
        assert (end.ended, end.message) == (Exit.LOST, "given 3 GPUs in Slurm, not by Muster")

    def test_no_gpus_where_some_were_given_are_a_lost_start(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """As other numbers are. No Slurm takes any from a job that runs."""
        self.changed_while_it_waits(case, slurm, "TresPerNode=")
        show = ("scontrol", "--oneliner", "--details", "show", "job", str(case.slurm_job().number))
        case.until(lambda: " JobState=RUNNING " in slurm.run(*show), "that it begins")
        if "(IDX:)" not in slurm.run(*show):
            pytest.skip("this Slurm leaves a job that waits its GPUs")
        end = case.end(1)
        assert (end.ended, end.message) == (Exit.LOST, "given 0 GPUs in Slurm, not by Muster")
        case.launch(1, epoch=2)
        case.until(lambda: not case.observed(1, epoch=2).pending, "the process of its second start")
        (held,) = case.observed(1, epoch=2).allocations or ()
        assert len(held.gpu_ids) == 1

    def test_a_start_on_other_gpus_that_is_not_requeued_is_named(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """It goes on."""
        self.changed_while_it_waits(case, slurm, "TresPerNode=gres:gpu:3", "Requeue=0")
        case.until(lambda: case.engine.poll().untaken, "that it is named")
        (named,) = case.engine.poll().untaken
        assert named.words.startswith("GPUs: found 3; allowed: 1, as Muster gave it. ")
        assert case.observed(1).ended is None
        case.kill(1)
        assert case.end(1).ended is Exit.STOPPED
        assert not case.engine.poll().untaken

    @pytest.mark.parametrize("requested", ["gpu:1", "gpu:v100:1"])
    def test_a_held_job_without_gpus_starts_with_those_it_is_given(
        self, case: SlurmCase, slurm: SlurmCluster, requested: str
    ) -> None:
        """An administrator has taken them from it. To Slurm it still is one with, or without, a type."""
        launch, number = self.adopted(case, slurm, requested, "sleep 600")
        slurm.run("scontrol", "update", f"jobid={number}", "TresPerNode=")
        case.engine.poll()
        case.send(launch)
        case.until(lambda: not case.observed(1).pending, "its first process")
        (held,) = case.observed(1).allocations or ()
        assert len(held.gpu_ids) == 1

    def test_a_start_cancelled_before_it_begins_is_killed(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """It has no nodes then, and has lost none."""
        slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            case.launch(1)
            case.until(lambda: bool(case.observed(1).pending), "that Slurm has it")
            slurm.run("scancel", str(case.slurm_job().number))
            end = case.end(1)
        finally:
            slurm.run("scontrol", "update", "nodename=node2", "state=resume")
        assert (end.ended, end.message) == (Exit.KILLED, "cancelled in Slurm, not by Muster")

    def test_a_gang_that_loses_a_node_is_lost(self, case: SlurmCase, slurm: SlurmCluster) -> None:
        """An administrator makes a running job smaller; srun ends its tasks there."""
        launch = case.launch_of(1, 1, Work.ENDLESS)
        (here,) = launch.allocations
        case.send(replace(launch, allocations=(replace(here, node="node1"), here), ranks=(1, 1)))
        case.until(lambda: not case.observed(1).pending, "its first process")
        number = case.slurm_job().number
        steps = ("squeue", "--noheader", "--steps", f"--jobs={number}")
        case.until(lambda: f"{number}.0 " in slurm.run(*steps), "its tasks")
        slurm.run("scontrol", "update", f"jobid={number}", "NumNodes=1", check=False)
        if len(case.slurm_job().nodes) == 2:
            pytest.skip("this Slurm makes no running job smaller")
        end = case.end(1)
        assert (end.ended, end.message) == (Exit.LOST, "left with node1 in Slurm, not by Muster")

    def test_a_signal_before_the_first_task_ends_no_srun(
        self, case: SlurmCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """srun would kill its tasks at once, and the job would count as killed."""
        tmp_path.chmod(0o755)
        late = tmp_path / "srun"
        waits = f"trap 'touch {tmp_path}/signalled' TERM\nuntil [ -e {tmp_path}/go ]; do sleep 0.1; done"
        late.write_text(f'#!/bin/sh\n{waits}\nexec {shutil.which("srun")} "$@"\n')
        late.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        case.launch(1)
        case.until(lambda: not case.observed(1).pending, "its first process")
        case.signal(1, 1)
        (tmp_path / "go").touch()
        assert case.end(1).ended is Exit.STOPPED
        assert not (tmp_path / "signalled").exists()

    def test_the_cpus_of_a_running_job_are_not_changed(self, case: SlurmCase) -> None:
        """The controller never asks for it; an engine that did nothing would leave its books wrong."""
        case.launch(1)
        with pytest.raises(SlurmError, match="cannot change"):
            case.send(ResizeStart(1, 1, tuple(case.smaller(1, 1))))
        assert case.observed(1).ended is None

    @pytest.mark.parametrize("unanswered", ["sbatch", "scontrol"])
    def test_an_order_without_an_answer_runs_once(
        self, case: SlurmCase, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch, unanswered: str
    ) -> None:
        """slurmctld carries it out once it goes on, after Muster has given up waiting for it."""
        epoch = 1
        if unanswered == "scontrol":  # Only a later start rewrites a job.
            case.launch(1)
            case.until(lambda: not case.observed(1).pending, "its first process")
            case.kill(1)
            case.end(1)
            epoch = 2
        done = SlurmCommands.done

        def stopped_before(commands: SlurmCommands, command: Sequence[str], *more: Any, **named: Any) -> Any:
            if command[0] == unanswered and command[1:2] != ["--oneliner"]:
                slurm.kill("slurmctld", signal.SIGSTOP)
            return done(commands, command, *more, **named)

        with monkeypatch.context() as patch:
            patch.setattr(SlurmCommands, "done", stopped_before)
            with pytest.raises(OSError, match="took longer"):
                case.launch(1, epoch=epoch)
        slurm.kill("slurmctld", signal.SIGCONT)
        slurm.wait_ready()
        case.launch(1, epoch=epoch)
        case.until(lambda: not case.observed(1, epoch=epoch).pending, "its process")
        assert case.observed(1, epoch=epoch).ended is None
        assert len(case.slurm_jobs()) == 1

    def adopted(
        self, case: SlurmCase, slurm: SlurmCluster, gres: str = "gpu:1", script: str = "true"
    ) -> tuple[Launch, str]:
        """A start of a job that its owner has submitted and Muster has taken, and the job's number in Slurm."""
        held = ("--hold", f"--gres={gres}", "--mem=1G", "--comment=muster:", "--output=/dev/null")
        number = slurm.run("sbatch", "--parsable", *held, f"--wrap={script}").strip()
        (new,) = [one for one in case.engine.poll().submitted if one.key.startswith(f"{number}@")]
        case.send(AdoptJob(new.key, 1))
        case.engine.poll()
        return replace(case.launch_of(1, 1, Work.SHORT), key=new.key), number

    def ends_alone(self, case: SlurmCase, slurm: SlurmCluster, number: str) -> None:
        """Its owner releases a job, and Slurm runs it to its end."""
        slurm.run("scontrol", "release", number)
        shown = ("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T")
        case.until(lambda: slurm.run(*shown).strip() == "COMPLETED", "its end")

    def test_a_job_that_ended_without_muster_is_not_launched(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """A start of it may be on record already."""
        launch, number = self.adopted(case, slurm)
        self.ends_alone(case, slurm, number)
        (end,) = case.engine.poll().ended_alone
        assert (end.job, end.ended) == (1, Exit.COMPLETED)
        with pytest.raises(StartRefused, match="was released in Slurm by its owner, and has ended there"):
            case.send(launch)
        assert not case.starts()
        case.send(CloseJob(launch.key, 1, completed=True))
        assert not case.engine.poll().ended_alone

    def test_a_run_is_an_owners_own_where_our_release_is_refused(
        self, case: SlurmCase, slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its owner releases it just before Muster does; its run is counted as that of the refused start would be."""
        launch, number = self.adopted(case, slurm)
        done = SlurmCommands.done

        def released_before(commands: SlurmCommands, command: Sequence[str], *more: Any, **named: Any) -> Any:
            if more and more[0].startswith("release "):
                self.ends_alone(case, slurm, number)
            return done(commands, command, *more, **named)

        with monkeypatch.context() as patch:
            patch.setattr(SlurmCommands, "done", released_before)
            with pytest.raises(StartRefused):
                case.send(launch)
        (end,) = case.engine.poll().ended_alone
        assert (end.job, end.ended) == (1, Exit.COMPLETED)
        case.send(CloseJob(launch.key, 1, completed=True))

    def test_a_number_that_slurm_uses_again_is_another_job(
        self, case: SlurmCase, slurm: SlurmCluster
    ) -> None:
        """slurmctld forgets a submission if it dies within seconds of it."""
        case.launch(1)
        number = case.slurm_job().number
        slurm.run("scontrol", "update", f"jobid={number}", "Comment=of another")
        assert case.end(1).ended is Exit.LOST
        case.launch(1, epoch=2)
        assert case.observed(1, epoch=2).ended is None
        assert case.slurm_job().number > number
        slurm.run("scancel", str(number))
