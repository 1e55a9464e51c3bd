"""Profiles of real processes: what they find, what they refuse, and that nothing is left of them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cgroups import find_cgroups
from muster.cli.app import run as run_command_line
from muster.cli.profile_view import _doubts
from muster.problems import InputError
from muster.profiling.cpus import AffinityGrants, cpu_points
from muster.profiling.job import REPORT_SECONDS, JobToProfile, ProgressReport, running
from muster.profiling.optimistic import Profile, profile_job
from muster.profiling.rates import Precision
from muster.training.unchanged import UnchangedJob
from muster.workload.models import read_model
from tests.cli.conftest import MUSTER

from . import cached_job, shared_job

QUICK = Precision(error=0.5, least_windows=2, most_windows=2)
PRINTING = """
import time
for step in range(1, {steps} + 1):
    end = time.process_time() + 0.01
    while time.process_time() < end: pass
    print(f"step {{step}}/many", flush=True)
"""
PATTERN = r"step (?P<step>\d+)/"


def silent(_what: str) -> None:
    """Shows nothing."""


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def refusal(job: JobToProfile) -> str:
    with pytest.raises(InputError) as refused:
        profile_job(job, precision=QUICK, on_progress=silent)
    return str(refused.value)


@pytest.fixture
def needs_quota() -> None:
    cgroups, how = find_cgroups()
    if cgroups is None:
        pytest.skip(f"no CPU quota on this machine: {how}")


@pytest.fixture(scope="module")
def profile() -> Profile:
    cgroups, how = find_cgroups()
    if cgroups is None:
        pytest.skip(f"no CPU quota on this machine: {how}")
    job = JobToProfile([sys.executable, str(Path(cached_job.__file__)), "1000000"])
    return profile_job(job, most_cpus=0.5, precision=QUICK, on_progress=silent)


EPOCHS = """
import time
from muster import training

def use_cpu(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

class Batches:
    def __len__(self): return 60
    def __getitem__(self, number):
        use_cpu(1.5 if number == 0 else 0)

for _ in training.join().steps(Batches(), state={}, epochs=1000): use_cpu(0.05)
"""
"""An epoch takes three seconds, and half of that to begin."""


@pytest.mark.usefixtures("needs_quota")
def test_windows_in_which_an_epoch_ends_do_not_count() -> None:
    exact = Precision(error=0.01, least_windows=6, most_windows=6)
    with running(JobToProfile(python(EPOCHS)), silent) as run:
        run.start(cores=1.0, cache_gb=0.0, cached_only=True)
        rate, _ = run.measure(1.0, exact)
    assert rate.steps_per_s > 0.85 / 0.05  # with the epochs' ends it is 0.67


@pytest.mark.parametrize(
    ("before", "now", "length", "ended"),
    [(1, 10, 60, False), (50, 60, 60, False), (60, 70, 60, True), (55, 65, 60, True), (10, 30, 30, False)],
)
def test_an_epoch_ends_before_the_step_that_waits(before: int, now: int, length: int, ended: bool) -> None:
    reports = [ProgressReport(step, 0.0, batches_per_epoch=length) for step in (before, now)]
    assert reports[1].ends_epoch_of(reports[0]) is ended
    repeating = [replace(report, profiled_share=2) for report in reports]
    assert not repeating[1].ends_epoch_of(repeating[0])


def test_a_job_is_not_faster_than_its_cpu(profile: Profile) -> None:
    assert list(profile.rates) == [0.25, 0.5]
    for cores, rate in profile.rates.items():
        # A window of a second may begin with a full period's quota.
        assert 0 < rate.steps_per_s < 1.15 * cores / cached_job.STEP_CPU_SECONDS
        assert rate.cpu_seconds is not None
        # Beside its steps it reads batches from the cache, reports, and began a step before the first window.
        assert 0.9 * cached_job.STEP_CPU_SECONDS < rate.cpu_seconds < 2 * cached_job.STEP_CPU_SECONDS


def test_what_the_job_reads_is_known(profile: Profile) -> None:
    reading = profile.reading
    assert reading is not None
    assert (reading.samples, reading.batches_per_epoch) == (cached_job.SAMPLES, 8)
    # Each sample as its pickle, in whole pages.
    assert reading.full_gb == cached_job.SAMPLES * 8192 / 1e9
    assert reading.memory_gb_per_s > 0
    assert reading.storage_gb_per_s >= reading.batch_gb * reading.uncached.steps_per_s * 0.999
    assert reading.batch_gb == cached_job.BATCH * 8192 / 1e9
    expected = cached_job.BATCH * cached_job.READ_CPU_SECONDS
    assert expected * 0.9 < reading.miss_cpu_seconds < expected * 1.5


def test_a_file_says_what_makes_it_less_true(profile: Profile) -> None:
    quiet = replace(profile, steady=True)
    (decodes,) = _doubts(quiet)
    assert "decode in transform=" in decodes
    assert profile.reading is not None
    raw = replace(profile.reading, miss_cpu_seconds=0.0)
    assert _doubts(replace(quiet, reading=raw)) == []
    (changed,) = _doubts(replace(quiet, reading=raw, drift=-0.25, steady=False))
    assert changed.startswith("0.5 cores gave 25.0 % less at the end than at the start")


def test_nothing_is_left(profile: Profile) -> None:
    cgroups, _ = find_cgroups()
    assert cgroups is not None
    assert f"profile-{os.getpid()}" not in cgroups.standing()
    mine = [line for line in _command_lines() if cached_job.__file__ in line]
    assert mine == []


@pytest.mark.long
def test_an_unchanged_job_by_the_command_line(
    needs_quota: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "printer.toml"
    words = [
        "profile",
        "--json",
        "--name",
        "printer",
        "--cpus",
        "0.5",
        "--precision",
        "50",
        "--out",
        str(out),
    ]
    words += ["--progress", PATTERN, "--", *python(PRINTING.format(steps=10**6))]
    assert run_command_line(words) == 0
    reply = json.loads(capsys.readouterr().out)
    assert [point["cores"] for point in reply["cpu_points"]] == [0.25, 0.5]
    assert reply["reading"] is None
    model = read_model(out)
    assert (model.name, model.cpus_per_gpu, model.dataset) == ("printer", (0.25, 0.5), None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["printer.png", "printer.svg", "printer.toml"]

    assert run_command_line(words) == 2
    assert "say --overwrite" in capsys.readouterr().out


@pytest.mark.long
def test_an_elastic_job_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, script = tmp_path / "shared.toml", str(Path(shared_job.__file__))
    words = ["profile", "--json", "--gpu", "", "--cpus", "1", "--precision", "50", "--out", str(out)]
    assert run_command_line([*words, "--", sys.executable, script, "elastic"]) == 0
    compute = json.loads(capsys.readouterr().out)["compute"]
    assert [point["samples"] for point in compute["points"]] == [6, 12, 16, 24, 48]
    assert [point["fitted"] for point in compute["points"]] == [True, True, False, True, True]
    model = read_model(out)
    assert model.batch == shared_job.BATCH
    assert model.compute is not None
    assert model.compute.fixed_samples == pytest.approx(
        compute["line"]["fixed"] / compute["line"]["per_sample"]
    )
    assert "waits for its input" in out.read_text()


@pytest.mark.long
def test_a_job_that_ends_is_started_again(needs_quota: None) -> None:
    reply: list[str] = []
    # Four seconds: time for the first words, and not for four windows more.
    job = JobToProfile(python(PRINTING.format(steps=200)), UnchangedJob(progress=PATTERN))
    with running(job, reply.append) as run:
        run.start(cores=0.5, cache_gb=0.0, cached_only=False)
        rate, _ = run.measure(0.5, Precision(1e-9, 4, 4))
    assert "the job has ended; starting it again" in reply
    assert rate.windows >= 3


def test_words_of_a_job_that_prints_every_step_are_windows_apart(needs_quota: None) -> None:
    job = JobToProfile(python(PRINTING.format(steps=10**6)), UnchangedJob(progress=PATTERN))
    with running(job, silent) as run:
        before = run.start(cores=0.5, cache_gb=0.0, cached_only=False)
        _, after = run.measure(0.5, Precision(0.5, 2, 2))
    # One word until the grant counts, and two windows.
    assert after.at - before.at >= 3 * REPORT_SECONDS


def test_what_a_killed_profiler_left_is_ended_by_the_next(needs_quota: None) -> None:
    cgroups, _ = find_cgroups()
    assert cgroups is not None
    with subprocess.Popen(["true"]) as gone:
        pass
    left = cgroups.group(f"profile-{gone.pid}")
    mine = cgroups.group(f"not-a-profile-{os.getpid()}")
    orphaned = left.entering(["sh", "-c", "echo up; exec sleep 600"])
    with subprocess.Popen(orphaned, stdout=subprocess.PIPE) as orphan:
        try:
            assert orphan.stdout is not None
            assert orphan.stdout.readline() == b"up\n"
            with running(JobToProfile(python("pass")), silent):
                standing = cgroups.standing()
            assert left.name not in standing
            assert mine.name in standing
            assert orphan.wait() == -signal.SIGKILL
        finally:
            left.kill()
            left.remove()
            mine.remove()


def test_a_job_dies_with_its_profiler(tmp_path: Path) -> None:
    with _profiled(tmp_path) as (profiler, pid):
        job = os.pidfd_open(pid)
        try:
            profiler.kill()
            assert select.select([job], [], [], 30.0)[0], "the job outlives its profiler"
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(job, signal.SIGKILL)
            os.close(job)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (JobToProfile(["there is no such command"]), "there is no such command"),
        (JobToProfile([]), "allowed: a command"),
        (
            JobToProfile(python("print('hello')")),
            r"ended before it had reported a step; it said last:\n  hello",
        ),
        (
            JobToProfile(python("raise SystemExit('no data')")),
            r"ended with status 1; it said last:\n  no data",
        ),
        (
            JobToProfile(python("import time; time.sleep(600)"), patience_seconds=0.5),
            "reported no step in 0.5 s. A job reports by muster.training",
        ),
        (
            JobToProfile(
                python("import time; print('x', flush=True); time.sleep(600)"),
                UnchangedJob(progress=PATTERN),
                0.5,
            ),
            "wrote no line in 0.5 s that --progress matches",
        ),
        (
            JobToProfile(python(PRINTING.format(steps=2)), UnchangedJob(progress=PATTERN)),
            "ends within seconds, too soon to be measured",
        ),
    ],
)
def test_a_job_that_cannot_be_measured_is_refused_with_a_reason(job: JobToProfile, said: str) -> None:
    assert said.replace(r"\n", "\n") in refusal(job)


def test_a_wrong_expression_is_named_by_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["profile", "--progress", "(", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith(
        "--progress: found '('; allowed: a regular expression with a group"
    )


@contextmanager
def _profiled(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A profiler at work, and its job's process id."""
    pipe = tmp_path / "pids"
    os.mkfifo(pipe)
    job = f"import os, time; open({str(pipe)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    words = ["profile", "--out", str(tmp_path / "never.toml"), "--", *python(job)]
    with subprocess.Popen([*MUSTER, *words], stderr=subprocess.PIPE, text=True) as profiler:
        yield profiler, int(pipe.read_text())


def test_a_terminated_profile_takes_its_job_with_it(tmp_path: Path) -> None:
    with _profiled(tmp_path) as (profiler, pid):
        profiler.terminate()
        _, complaint = profiler.communicate()
    assert (profiler.returncode, complaint) == (130, "interrupted; nothing was written\n")
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "never.toml").exists()


@pytest.mark.needs_torch
def test_the_example_trains_alone() -> None:
    pytest.importorskip("torch")
    script = Path(__file__).parents[2] / "examples" / "profile_images.py"
    options = ["--samples", "32", "--side", "32", "--workers", "1", "--epochs", "2", "--store-mb-per-s", "8"]
    subprocess.run([sys.executable, str(script), *options], check=True)


def test_amounts_of_cpu() -> None:
    most = len(os.sched_getaffinity(0))
    assert cpu_points(0.5, fractions=True) == (0.25, 0.5)
    assert cpu_points(1.1, fractions=True) == (0.25, 0.5, 0.75, 1.0)
    for wrong in (0.0, -1.0, most + 1.0, float("nan")):
        with pytest.raises(InputError, match=f"at most {most} cores"):
            cpu_points(wrong, fractions=True)
    with pytest.raises(InputError, match="without a CPU quota only whole cores"):
        cpu_points(1.0, fractions=False)


def test_a_containers_share_is_all_there_is(needs_quota: None) -> None:
    cgroups, _ = find_cgroups()
    assert cgroups is not None
    group = cgroups.group(f"container-{os.getpid()}")
    try:
        group.set_cpu_quota(1.5)
        source = "from muster.profiling.cpus import cpu_points; print(cpu_points(None, fractions=True)[-1])"
        said = subprocess.run(group.entering(python(source)), check=True, capture_output=True, text=True)
        assert float(said.stdout) == min(1.5, len(os.sched_getaffinity(0)))
    finally:
        group.kill()
        group.remove()


def test_affinity_reaches_every_thread_and_process() -> None:
    source = (
        "import os, threading, time; os.fork(); threading.Thread(target=time.sleep, args=(600,)).start();"
        "os.write(1, b'up\\n')"
    )
    first = min(os.sched_getaffinity(0))
    pipe = subprocess.PIPE
    with subprocess.Popen(python(source), stdout=pipe, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
            pids = [pid for pid in _pids() if _session(pid) == process.pid]
            AffinityGrants(lambda: pids).give(1)
            threads = [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
            assert len(threads) == 4
            assert all(os.sched_getaffinity(thread) == {first} for thread in threads)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _command_lines() -> list[str]:
    lines = []
    for pid in _pids():
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return lines
