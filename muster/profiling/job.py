"""A real job that runs to be measured: started, watched, given CPU and cache, killed at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.cgroups import CgroupError, Cgroups, find_cgroups
from muster.formatting import cores as counted_cores
from muster.formatting import counted
from muster.launcher.parts import Master, free_port, rank_variables
from muster.problems import InputError, Problem
from muster.processes import die_with_parent, look_at
from muster.profiling.cpus import AffinityGrants, CpuGrants, QuotaGrants, has_quota
from muster.profiling.rates import Precision, Rate, rate_of
from muster.training.run_folder import EXIT_STOPPED, begin_start, give_notice, read_progress
from muster.training.unchanged import UnchangedJob

LOOK_SECONDS = 0.1
"""Seconds between two looks at a job's progress, which it reports about once a second."""
REPORT_SECONDS = 1.0
"""Least seconds between two reports read from the output of a job that does not use muster.training."""
_SETTLING_SECONDS = 0.5
"""After a change of CPU, before anything counts."""
_TAIL_LINES = 5
"""Of a failed job's output that are shown."""
_EPOCH_WINDOWS = 2
"""Windows of an epoch from which on those in which one ends are left out."""
_WARM_SHARE = 0.01
"""Samples that may still come from storage when a cache counts as filled."""
_LEAST_REPORTS = 4
"""Reports of a start that ended by itself, for another start to be worth its while."""
_GROUP = "profile-"
"""A profile's group has the profiler's process id behind this."""


ProgressCallback = Callable[[str], None]
"""Called with a phrase on what is being done."""


@dataclass(frozen=True)
class JobToProfile:
    """What to run and how it reports its progress."""

    command: Sequence[str]
    unchanged: UnchangedJob | None = None
    """For a job that knows nothing of Muster: the pattern of its progress."""
    patience_seconds: float = 300.0
    """For its first step, and for each filling of its cache."""
    gpu: str | None = None
    """Names for CUDA_VISIBLE_DEVICES, one for each worker, by commas; None: those that this process itself may use."""

    def check(self) -> None:
        """Refuses a command that there is not."""
        if not self.command:
            raise InputError(Problem("COMMAND", "allowed: a command, as: muster profile -- python train.py"))
        if shutil.which(self.command[0]) is None:
            raise InputError(Problem("COMMAND", "there is no such command", found=self.command[0]))

    @property
    def gpu_names(self) -> list[str]:
        """The GPUs that are named."""
        return self.gpu.split(",") if self.gpu else []


@dataclass(frozen=True)
class ProgressReport:
    """A job's own report on how far it is."""

    step: int
    at: float
    """Seconds of the machine's monotonic clock."""
    start: int = 0
    """Which start of the job reported it; filled in by the reader."""
    batches_per_epoch: int = 0
    """0: unknown, as all below for a job without cached data."""
    cache_hits: int = 0
    cache_hit_cpu_seconds: float = 0.0
    cache_misses: int = 0
    cache_miss_cpu_seconds: float = 0.0
    cache_samples: int = 0
    cache_unfilled: int = 0
    cache_full_gb: float = 0.0
    cache_all_gb: float = 0.0
    """Of every cached data set, those too that the steps do not walk."""
    elastic: bool = False
    """Whether its batches can be shared among workers."""
    profiled_share: int = 0
    """Workers among whom the batch is shared that it repeats; 0: it repeats none."""
    share_samples: int = 0
    share_passes: int = 0
    loader_workers: int = 0
    """Processes that prepare batches while steps are done."""
    discarded: int = 0
    """How often it has discarded prepared batches."""

    def ends_epoch_of(self, before: ProgressReport) -> bool:
        """Whether an epoch ended between that report and this one.

        A loader prepares nothing across it, so the next step waits, whatever the CPU; in one window of several that
        hides what a point is compared for. Where epochs are about as short as windows, none counts as ended.
        """
        steps, length = self.step - before.step, self.batches_per_epoch
        if self.profiled_share or length < _EPOCH_WINDOWS * steps:
            return False
        return (self.step - 1) // length > (before.step - 1) // length


class RunningJob:
    """A job under measurement; a start that ends, its work done, is followed by another. Made by `running`."""

    def __init__(
        self, job: JobToProfile, folder: Path, quota: QuotaGrants | None, on_progress: ProgressCallback
    ) -> None:
        self._job = job
        self._folder = folder
        self._quota = quota
        self._group = None if quota is None else quota.group
        self._on_progress = on_progress
        self._processes: list[subprocess.Popen[bytes]] = []
        """By rank."""
        self._grants: CpuGrants = quota or AffinityGrants(self._pids)
        self._starts = 0
        self._last_report: ProgressReport | None = None
        self._reports = 0
        self._output_read = 0
        self._cores = self._cache_gb = 0.0
        self._cached_only = False
        self._share, self._workers = 0, 1
        self._had_more, self._discards = False, 0
        """Whether batches may wait that were prepared with more CPU or cache, and how often those were discarded."""

    @property
    def has_quota(self) -> bool:
        """Whether it can be given fractions of a core."""
        return self._group is not None

    def start(
        self, *, cores: float, cache_gb: float, cached_only: bool, share: int = 0, workers: int = 1
    ) -> ProgressReport:
        """Starts the command again, waits until its cache is filled, and returns its last report.

        With a `share` it repeats one batch; each of `workers` processes takes as much of it as if it were so many.
        """
        self.end()
        self._starts += 1
        self._cache_gb, self._cached_only, self._cores = cache_gb, cached_only, cores
        self._share, self._workers = share, workers
        self._last_report, self._reports, self._output_read = None, 0, 0
        self._had_more, self._discards = False, 0
        self._run_dir.mkdir()
        begin_start(self._run_dir, 1)
        command = list(self._job.command)
        if self._group is not None:
            command = self._group.entering(command)
        for rank, environment in enumerate(self._environments()):
            with self._output(rank).open("wb") as output:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            self._processes.append(process)
        self._grants.give(cores)
        return self._warm()

    def _environments(self) -> Iterator[dict[str, str]]:
        """The variables of each rank; several have those of torchrun."""
        environment = {
            # As `muster submit` does; a job computes with as many threads as it will have later.
            "OMP_NUM_THREADS": "1",
            **os.environ,
            "MUSTER_RUN_DIR": str(self._run_dir),
            "MUSTER_EPOCH": "1",
            "MUSTER_CACHE_GB": repr(self._cache_gb),
            "MUSTER_CACHED_ONLY": str(int(self._cached_only)),
            "MUSTER_PROFILED_SHARE": str(self._share),
            # It is never resumed, and writing would disturb the measurement.
            "MUSTER_CHECKPOINT_SECONDS": repr(1e9),
            "PYTHONUNBUFFERED": "1",
        }
        if self._job.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._job.gpu_names[: self._workers])
        if self._workers == 1:
            yield environment
            return
        master = Master("127.0.0.1", free_port("127.0.0.1"))
        for rank in range(self._workers):
            yield environment | rank_variables(0, rank, self._workers, self._workers, master)

    def set_cache(self, gigabytes: float) -> ProgressReport:
        """Another size of the cache, from the next step on; returns once it is filled."""
        self._had_more |= gigabytes < self._cache_gb
        self._cache_gb = gigabytes
        give_notice(self._run_dir, 1, cache_gb=gigabytes)
        return self._warm()

    def set_share(self, share: int) -> None:
        """Repeats its batch as the fullest of so many workers from now on; returns once it does."""
        self._share = share
        give_notice(self._run_dir, 1, profiled_share=share)
        report = self._next(None)
        while report.profiled_share != share:
            report = self._next(report)

    def give_cpus(self, cores: float) -> None:
        """From now on the job has so many cores."""
        self._had_more |= cores < self._cores
        self._cores = cores
        self._grants.give(cores)

    def measure(self, cores: float, precision: Precision) -> tuple[Rate, ProgressReport]:
        """Steps a second with this much CPU, and the job's last report."""
        self.give_cpus(cores)
        windows: list[tuple[int, float]] = []
        first = last = self._settled()
        used_before = self._used_seconds()
        while True:
            report = self._next(last)
            if report.start == last.start and report.step > last.step and not report.ends_epoch_of(last):
                windows.append((report.step - last.step, report.at - last.at))
                rate = rate_of(windows, precision)
                how_sure = (
                    "" if rate is None else f", {rate.steps_per_s:.4g} steps/s ± {100 * rate.error:.1f} %"
                )
                self._on_progress(f"{self._what(cores)}: window {len(windows)}{how_sure}")
                if rate is not None and (rate.sure or len(windows) >= precision.most_windows):
                    used = self._used_seconds()
                    if used is None or used_before is None or report.start != first.start:
                        return rate, report
                    return replace(
                        rate, cpu_seconds=(used - used_before) / (report.step - first.step)
                    ), report
            last = report

    def _settled(self) -> ProgressReport:
        """The first report from which on steps count; what was begun under the grant before counts for neither."""
        if self._had_more:
            self._discard_prepared()
        settled = time.monotonic() + _SETTLING_SECONDS
        report = self._next(self._next(None))
        while report.at < settled:
            report = self._next(report)
        return report

    def _discard_prepared(self) -> None:
        """Has the job drop the batches that wait: as long as there are any, it is faster than they are prepared."""
        self._had_more = False
        first = report = self._next(None)
        if not first.loader_workers:
            return
        self._discards += 1
        give_notice(self._run_dir, 1, discard=self._discards)
        while report.start == first.start and report.discarded < self._discards:
            self._on_progress(f"{self._what(self._cores)}: discarding batches that were prepared before")
            report = self._next(report)

    def _what(self, cores: float) -> str:
        workers = f", {self._workers} workers" if self._workers > 1 else ""
        share = f", 1/{self._share * self._workers} of a batch" if self._share else ""
        return f"{counted_cores(cores)}{workers}{share}"

    def end(self) -> None:
        """Kills what runs."""
        if self._processes and self._group is not None:
            self._group.kill()
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes = []

    def _used_seconds(self) -> float | None:
        return None if self._quota is None else self._quota.used_seconds()

    @property
    def _run_dir(self) -> Path:
        return self._folder / f"start-{self._starts}"

    def _output(self, rank: int) -> Path:
        return self._folder / f"start-{self._starts}-{rank}.log"

    def _pids(self) -> Iterable[int]:
        """The processes of the job's sessions."""
        sessions = {process.pid for process in self._processes}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if os.getsid(int(entry.name)) in sessions:
                        yield int(entry.name)

    def _warm(self) -> ProgressReport:
        """Waits until nearly all that is to be cached has been read.

        Of the reports that come next, the first may be older than the notice and the second cross it.
        """
        end = time.monotonic() + self._job.patience_seconds
        report = self._next(self._next(self._next(None)))
        while report.cache_unfilled > _WARM_SHARE * report.cache_samples:
            self._on_progress(f"filling the cache, {counted(report.cache_unfilled, 'sample')} to go")
            if time.monotonic() > end:
                what = f"its cache of {self._cache_gb:.3g} GB was not filled in time; --patience waits longer"
                raise InputError(Problem("job", what + self._tail()))
            report = self._next(report)
        return report

    def _next(self, before: ProgressReport | None) -> ProgressReport:
        """The job's next report after that one; starts it again if it has ended in between."""
        end = time.monotonic() + self._job.patience_seconds
        while True:
            report = self._look()
            if report is not None and (before is None or report.at > before.at):
                self._reports += 1
                return report
            ended = {rank: process.poll() for rank, process in enumerate(self._processes)}
            statuses = {rank: status for rank, status in ended.items() if status is not None}
            if statuses:
                # One that failed says more than those that ended because of it, or well.
                rank = max(statuses, key=lambda rank: (statuses[rank] > 0, statuses[rank] != 0))
                return self._again(rank, statuses[rank], report)
            if time.monotonic() > end:
                raise InputError(Problem("job", self._silent(report)))
            time.sleep(LOOK_SECONDS)

    def _again(self, rank: int, status: int, report: ProgressReport | None) -> ProgressReport:
        """Starts an ended job again if its start was of any use; returns the first report."""
        if status not in (0, EXIT_STOPPED):
            which = f"rank {rank} of {self._workers} " if self._workers > 1 else ""
            raise InputError(Problem("job", f"{which}ended with status {status}{self._tail(rank)}"))
        if report is None:
            raise InputError(Problem("job", f"ended before it had reported a step{self._tail()}"))
        if self._reports < _LEAST_REPORTS:
            what = "ends within seconds, too soon to be measured; give it more epochs or samples"
            raise InputError(Problem("job", what))
        self._on_progress("the job has ended; starting it again")
        return self.start(
            cores=self._cores,
            cache_gb=self._cache_gb,
            cached_only=self._cached_only,
            share=self._share,
            workers=self._workers,
        )

    def _silent(self, report: ProgressReport | None) -> str:
        waited = f"{self._job.patience_seconds:g} s"
        if report is not None:
            return f"made no step in {waited}; --patience waits longer{self._tail()}"
        if self._job.unchanged is not None:
            return f"wrote no line in {waited} that --progress matches{self._tail()}"
        return (
            f"reported no step in {waited}. A job reports by muster.training (join, steps), "
            f"see docs/how-to/training.md; for one that cannot be changed "
            f"say --progress 'step (?P<step>\\d+)'{self._tail()}"
        )

    def _tail(self, rank: int = 0) -> str:
        lines = self._output(rank).read_text(errors="replace").split("\n")
        said = [line.rstrip() for line in lines if line.strip()][-_TAIL_LINES:]
        return "; it said last:\n  " + "\n  ".join(said) if said else "; it wrote nothing"

    def _look(self) -> ProgressReport | None:
        if self._job.unchanged is not None:
            step, self._output_read = self._job.unchanged.read_progress(self._output(0), self._output_read)
            now, report = time.monotonic(), self._last_report
            if step is not None and (
                report is None or (step != report.step and now - report.at >= REPORT_SECONDS)
            ):
                self._last_report = ProgressReport(step, now, self._starts)
            return self._last_report
        written = read_progress(self._run_dir)
        if written is None:
            return None
        known = {field.name: written[field.name] for field in fields(ProgressReport) if field.name in written}
        return ProgressReport(**known, start=self._starts)


@contextmanager
def running(job: JobToProfile, on_progress: ProgressCallback) -> Iterator[RunningJob]:
    """The job, not yet started; nothing of it is left at the end, neither process nor group nor file."""
    job.check()
    cgroups, _ = find_cgroups()
    with ExitStack() as leaving:
        folder = leaving.enter_context(
            TemporaryDirectory(prefix="muster-profile-", ignore_cleanup_errors=True)
        )
        quota = None
        if cgroups is not None and has_quota(cgroups):
            quota = leaving.enter_context(_quota(cgroups))
        started = RunningJob(job, Path(folder), quota, on_progress)
        leaving.callback(started.end)
        yield started


def _sweep(cgroups: Cgroups) -> None:
    """Ends what profiles left that were killed themselves, so that it does not run on beside this one."""
    for name, left in cgroups.standing().items():
        if name.startswith(_GROUP) and not _runs(name.removeprefix(_GROUP)):
            with suppress(CgroupError, OSError):  # it may be another user's
                left.kill()
                left.remove()


def _runs(pid: str) -> bool:
    """Whether another process of this number may be at work."""
    return pid.isdigit() and int(pid) != os.getpid() and look_at(int(pid)) is not None


@contextmanager
def _quota(cgroups: Cgroups) -> Iterator[QuotaGrants]:
    """Grants in a group of this profile's own, removed at the end."""
    _sweep(cgroups)
    group = cgroups.group(f"{_GROUP}{os.getpid()}")
    quota = QuotaGrants(cgroups, group)
    try:
        yield quota
    finally:
        group.kill()
        quota.take_back()
        group.remove()
