"""A full disk: one line, status 1, nothing half written, and no traceback from any process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import MUSTER, TRACE, muster_process

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize(
    "arguments",
    [("schedulers",), ("--help",), ("schedulers", "--json"), ("simulate", "absent.csv", "--json")],
)
@pytest.mark.parametrize(
    "environment", [BUFFERED, BUFFERED | {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "not"]
)
def test_output_that_cannot_be_written_is_one_line(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    with Path("/dev/full").open("w") as stdout:
        done = subprocess.run(
            [*MUSTER, *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )
    said = "the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_reader_that_leaves_ends_the_command_quietly() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*MUSTER, "schedulers"], stdout=theirs, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_closed_output_is_no_traceback() -> None:
    script = ["sh", "-c", '"$@" >&-', "sh", *MUSTER, "schedulers"]
    done = subprocess.run(script, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@needs_root
@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "trace.csv", "--cluster", "1x8gpu"),
        ("compare", "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--scheduler", "las"),
        ("sweep", "sweep.toml"),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, small_disk: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "sweep.toml").write_text('schedulers = ["fifo"]\nclusters = "1x8gpu"\ntraces = "trace.csv"\n')
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    stopped = muster_process(*arguments, "--out", small_disk / "out", folder=tmp_path)
    *_, last = stopped.err.splitlines()
    assert stopped.status == 1, stopped.err
    assert last.endswith("cannot be written: No space left on device")
    assert str(small_disk / "out") in last
    assert "Traceback" not in stopped.err
    # A sweep keeps the runs that are done; nothing else is left.
    left = {path.name for path in small_disk.rglob("*") if path.is_file() and path.parent.name != "cells"}
    assert left == {"filler"}


@needs_root
def test_a_full_disk_leaves_an_older_result_alone(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (small_disk / "out.csv").write_text("older")
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    flags = (
        "generate",
        "mixed",
        "--jobs",
        "500",
        "--gpus",
        "64",
        "-o",
        small_disk / "out.csv",
        "--overwrite",
    )
    stopped = muster_process(*flags, folder=tmp_path)
    assert stopped.status == 1
    assert stopped.err == f"{small_disk / 'out.csv'}: cannot be written: No space left on device\n"
    assert (small_disk / "out.csv").read_text() == "older"
