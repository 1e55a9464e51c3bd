"""Starts of real processes on this machine: what they are given, how they end, what ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from muster.service.engines import Exit
from muster.service.engines.local.launch_context import RUN_SUPERVISOR
from tests.service.engines.bench import Bench, python, shell, until

TRAPPED = "import signal, sys, time\nsignal.signal(signal.{signal}, lambda *_: sys.exit({status}))\n"
WAITING = "print('up', flush=True)\nwhile True: time.sleep(60)"


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_start_gets_its_words_folder_and_variables_as_they_are(bench: Bench, tmp_path: Path) -> None:
    arguments = ["a b", "$HOME; exit 3", "new\nline", "'\"", "ü", os.fsdecode(b"\xff"), ""]
    place = tmp_path / "a folder"
    place.mkdir()
    source = "import os, sys; print([os.fsencode(w) for w in sys.argv[1:]], os.getcwd(), sorted(os.environ.items()))"
    bench.launch(
        7,
        3,
        [*python(source), *arguments],
        gpus=(2, 5),
        directory=place,
        environment={"MINE": "1\n2", "PATH": "/bin"},
    )
    end = bench.end(7, 3)
    assert (end.ended, end.status, end.message) == (Exit.COMPLETED, 0, "")
    reply, folder, variables = (
        bench.output(7).strip().replace("] /", "]\0/").replace(" [(", "\0[(").split("\0")
    )
    assert eval(reply) == [os.fsencode(argument) for argument in arguments]
    assert folder == str(place)
    given = dict(eval(variables))
    assert given.pop("MASTER_PORT").isdigit()
    assert given.pop("HOME")
    assert {given.pop("USER"), given.pop("LOGNAME")} == {
        subprocess.check_output(["id", "-un"], text=True).strip()
    }
    given.pop("LC_CTYPE", None)  # python's own doing
    assert given == {
        "MINE": "1\n2",
        "PATH": "/bin",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,5",
        "MUSTER_RUN_DIR": str(tmp_path / "7" / "run"),
        "MUSTER_EPOCH": "3",
        "MUSTER_START": str(tmp_path / "engine" / "7.3"),
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
    }


def test_nothing_of_the_daemon_reaches_a_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "1")
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    source = """
import os, signal
assert "SECRET_OF_THE_DAEMON" not in os.environ
assert not [n for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.exists("/proc/self/fd/" + n)]
assert os.getsid(0) == os.getpgid(0) == os.getpid()
assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
assert signal.getsignal(signal.SIGUSR2) == signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
"""
    try:
        bench.launch(1, 1, python(source))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert bench.end(1, 1).ended is Exit.COMPLETED, bench.output(1)


def test_a_gang_meets_at_its_port(bench: Bench) -> None:
    source = """
import os, socket, time
rank, at = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert (os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]) == (str(rank), "2", "2")
if rank == 0:
    with socket.create_server(at) as server:
        print(server.accept()[0].recv(100))
else:
    while True:
        try:
            socket.create_connection(at).sendall(b"here is rank 1")
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
"""
    bench.launch(1, 1, python(source), ranks=2)
    assert bench.end(1, 1).ended is Exit.COMPLETED, bench.output(1) + bench.output(1, 1)
    assert "here is rank 1" in bench.output(1, 0)


@pytest.mark.parametrize(
    ("command", "ended", "status", "message"),
    [
        (["true"], Exit.COMPLETED, 0, ""),
        (shell("exit 75"), Exit.STOPPED, 75, ""),
        (shell("exit 3"), Exit.FAILED, 3, "rank 0 ended with status 3"),
        (shell("exit 143"), Exit.FAILED, 143, "rank 0 ended with status 143"),
        (shell("kill -SEGV $$"), Exit.KILLED, -11, "rank 0 was ended by SIGSEGV"),
        (shell("kill -TERM $$"), Exit.KILLED, -15, "rank 0 was ended by SIGTERM"),
        (shell("kill -KILL $$"), Exit.KILLED, -9, "rank 0 was ended by SIGKILL"),
        (["no-such-command"], Exit.FAILED, 127, "no-such-command: No such file or directory"),
        (["/etc/passwd"], Exit.FAILED, 127, "/etc/passwd: Permission denied"),
    ],
)
def test_how_a_start_ends(bench: Bench, command: list[str], ended: Exit, status: int, message: str) -> None:
    bench.launch(1, 1, command)
    end = bench.end(1, 1)
    assert (end.ended, end.status) == (ended, status)
    assert end.message.endswith(message)
    assert bench.reopen().observe() == [end]


def test_a_missing_working_directory_fails_the_start(bench: Bench, tmp_path: Path) -> None:
    bench.launch(1, 1, ["true"], directory=tmp_path / "gone")
    end = bench.end(1, 1)
    assert end.ended is Exit.FAILED
    assert f"{tmp_path}/gone: No such file or directory" in end.message


def test_output_is_not_written_through_a_link(bench: Bench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("unharmed")
    (tmp_path / "1" / "output").mkdir(parents=True)
    (tmp_path / "1" / "output" / "0.log").symlink_to(secret)
    bench.launch(1, 1, shell("echo harm"))
    assert bench.end(1, 1).ended is Exit.FAILED
    assert secret.read_text() == "unharmed"


def test_a_job_that_prints_without_end_runs_on(bench: Bench, tmp_path: Path) -> None:
    """The newest output of all its starts is kept; the oldest gives its room on the disk back."""
    bench.launch(1, 1, shell("head -c 1500000 /dev/zero | tr '\\0' a"), output_limit_gb=2e-3)
    assert bench.end(1, 1).ended is Exit.COMPLETED
    source = "head -c 1000000 /dev/zero | tr '\\0' b; while [ ! -e go ]; do sleep 0.01; done; echo done"
    bench.launch(1, 2, shell(source), output_limit_gb=2e-3)
    output = tmp_path / "1" / "output" / "0.log"
    until(lambda: output.stat().st_size == 2_500_000 and output.stat().st_blocks * 512 < 1_100_000)
    (tmp_path / "go").touch()
    assert bench.end(1, 2).ended is Exit.COMPLETED
    kept = output.read_bytes()
    assert len(kept) == 2_500_005
    assert kept.endswith(b"b" * 999_000 + b"done\n")
    assert kept[:1_000_000] == bytes(1_000_000)


def test_if_one_rank_dies_the_others_are_asked_and_then_killed(bench: Bench) -> None:
    bench.engine.gang_grace_seconds = 0.2
    source = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
    open("ready", "w")
    while True: time.sleep(60)
while not os.path.exists("ready"): time.sleep(0.005)
sys.exit(9)
"""
    bench.launch(1, 1, python(source), ranks=2)
    end = bench.end(1, 1)
    assert (end.ended, end.status) == (Exit.FAILED, 9)
    assert bench.output(1, 1) == "asked\n"
    assert bench.records(1, 1)[-1]["endings"] == [[0, 9, 0, ""], [1, -9, 0, ""]]


def test_a_rank_that_is_done_or_stopped_leaves_the_others_alone(bench: Bench) -> None:
    source = """
import os, sys, time
if os.environ["RANK"] == "0": sys.exit({status})
while not os.path.exists("go"): time.sleep(0.005)
sys.exit({status})
"""
    for job, status in ((1, 0), (2, 75)):
        bench.launch(job, 1, python(source.format(status=status)), ranks=2)
    for job in (1, 2):
        pids = bench.supervisor(job, 1) and bench.records(job, 1)[1]["ranks"]
        assert isinstance(pids, list)
        until(partial(has_ended, pids[0]), "the end of rank 0")
        assert Path(f"/proc/{pids[1]}").exists()
    (bench.folder / "go").touch()
    assert bench.end(1, 1).ended is Exit.COMPLETED
    assert bench.end(2, 1).ended is Exit.STOPPED


@pytest.mark.parametrize(
    ("name", "source", "ended", "status"),
    [
        ("SIGTERM", "import time\n", Exit.STOPPED, -15),
        ("SIGTERM", TRAPPED.format(signal="SIGTERM", status=75), Exit.STOPPED, 75),
        ("SIGTERM", TRAPPED.format(signal="SIGTERM", status=0), Exit.COMPLETED, 0),
        ("SIGTERM", TRAPPED.format(signal="SIGTERM", status=4), Exit.FAILED, 4),
        ("SIGUSR1", TRAPPED.format(signal="SIGUSR1", status=128 + 10), Exit.STOPPED, 138),
        ("SIGINT", "import time\n", Exit.STOPPED, -2),
    ],
)
def test_a_signal_reaches_all_ranks(bench: Bench, name: str, source: str, ended: Exit, status: int) -> None:
    bench.launch(1, 1, python(source + WAITING), ranks=2)
    for rank in (0, 1):
        bench.says("up", 1, rank)
    bench.engine.signal(1, 1, name)
    end = bench.end(1, 1)
    assert (end.ended, end.status) == (ended, status)
    bench.engine.signal(1, 1, name)
    bench.engine.kill(1, 1)
    assert bench.reopen().observe() == [end]


def test_a_signal_of_no_name_is_refused_before_anybody_gets_it(bench: Bench) -> None:
    bench.launch(1, 1, ["sleep", "600"])
    with pytest.raises(KeyError):
        bench.engine.signal(1, 1, "SIGNOTHING")


@pytest.mark.parametrize("asked", ["kill", "signal"])
def test_a_start_stopped_before_its_processes_gets_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("muster.service.engines.local.engine.spawn_supervisor", _no_process)
        bench.launch(1, 1, shell("echo ran"))
        bench.engine.kill(1, 1) if asked == "kill" else bench.engine.signal(1, 1, "SIGTERM")
    bench.reopen()
    end = bench.end(1, 1)
    assert end.ended is Exit.STOPPED
    assert bench.output(1) == ""


def test_kill_ends_those_who_ran_away_too(bench: Bench) -> None:
    bench.launch(
        1,
        1,
        shell("trap '' TERM; setsid sh -c 'trap \"\" TERM; echo away; sleep 600; true' & sleep 600; true"),
    )
    bench.says("away", 1)
    assert len(bench.left(1, 1)) >= 4
    bench.engine.kill(1, 1)
    end = bench.end(1, 1)
    assert (end.ended, end.status) == (Exit.STOPPED, -9)
    until(lambda: bench.left(1, 1) == [], "the end of the supervisor")


def test_a_supervisor_imports_the_standard_library_only() -> None:
    """It is started for each start of each job."""
    reply = subprocess.check_output(
        [
            *(sys.executable, "-I", "-S", "-c"),
            RUN_SUPERVISOR + "\nprint(*sys.modules)",
            str(Path(__file__).parents[3]),
            "/nowhere",
        ],
        text=True,
    ).split()
    ours = "muster.launcher"
    assert {name for name in reply if name.startswith(ours + ".")} == {
        f"{ours}.{name}" for name in ("journal", "lease", "output_file", "parts", "rank", "supervisor")
    }
    assert {name.split(".")[0] for name in reply} <= sys.stdlib_module_names | {"muster", "__main__"}


def _no_process(_folder: Path) -> int:
    """A supervisor that dies at once."""
    return os.posix_spawn("/bin/true", ["true"], {})


def test_the_standard_input_of_a_job_is_empty(bench: Bench) -> None:
    bench.launch(
        1, 1, python("import os, sys; print(repr(sys.stdin.read()), os.readlink('/proc/self/fd/0'))")
    )
    bench.end(1, 1)
    assert bench.output(1) == "'' /dev/null\n"
