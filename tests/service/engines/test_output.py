"""Output as engines with run folders read it, and the threads that read it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from dataclasses import replace
from getpass import getuser
from pathlib import Path

import pytest

from muster.service.engines import OutputPiece, OutputRequest
from muster.service.engines.run_folders import ReadsRunFolders
from muster.service.home import WHOSE

ENGINE = ReadsRunFolders()
HUGE = 10 * 10**9


@pytest.fixture
def asked(tmp_path: Path) -> OutputRequest:
    """Of a job whose folder is there."""
    folder = tmp_path / "1" / "output"
    folder.mkdir(parents=True)
    return OutputRequest(1, folder, getuser(), "ann 1.5", rank=0, offset=0, limit=100)


def test_the_end_of_ten_gigabytes_is_read_alone(asked: OutputRequest) -> None:
    """The oldest part was dropped; what follows it begins at a block of the file system."""
    with (asked.output_dir / "0.log").open("wb") as file:
        file.seek(HUGE)
        file.write(b"0123456789")
    assert ENGINE.read_output(replace(asked, offset=-4)) == OutputPiece(b"6789", HUGE + 10)
    assert ENGINE.read_output(replace(asked, offset=HUGE + 3, limit=2)) == OutputPiece(b"34", HUGE + 5)
    piece = ENGINE.read_output(replace(asked, limit=2**20))
    assert piece == OutputPiece(b"0123456789", HUGE + 10)
    assert ENGINE.read_output(replace(asked, offset=piece.next_offset)) == OutputPiece(b"", HUGE + 10)


def test_output_of_another_job_of_its_number_is_none(asked: OutputRequest) -> None:
    (asked.output_dir / "0.log").write_text("text")
    (asked.output_dir.parent / WHOSE).write_text("ann 1.5")
    assert ENGINE.read_output(asked).data == b"text"
    (asked.output_dir.parent / WHOSE).write_text("bob 2.5")
    assert ENGINE.read_output(asked) == OutputPiece(b"", 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_output_is_the_daemons_or_the_owners(asked: OutputRequest) -> None:
    """On a shared disk the owner's processes write it; no other user's file is handed out."""
    for rank, (name, shown) in enumerate([("root", b"text"), ("mail", b"text"), ("daemon", b"")]):
        file = asked.output_dir / f"{rank}.log"
        file.write_text("text")
        os.chown(file, pwd.getpwnam(name).pw_uid, -1)
        assert ENGINE.read_output(replace(asked, user="mail", rank=rank)).data == shown, name


def test_what_cannot_be_looked_at_is_no_empty_output(asked: OutputRequest) -> None:
    assert ENGINE.read_output(asked) == OutputPiece(b"", 0), "it has written nothing"
    with pytest.raises(OSError, match="too long"):
        ENGINE.read_output(replace(asked, output_dir=asked.output_dir.parent / ("x" * 300) / "output"))


_HELD_UP = """
import asyncio, threading
from pathlib import Path
from muster.service.engines import OutputRequest
from muster.service.engines.output_reader import OutputReader

reader = OutputReader(lambda _: threading.Event().wait(), answer_seconds=0.1)
try:
    asyncio.run(reader.read(OutputRequest(1, Path(), "ann", "", 0, 0, 1)))
except TimeoutError:
    print("in time")
"""


def test_a_process_ends_though_a_read_does_not() -> None:
    """As a daemon that is stopped while its disk does not answer."""
    ended = subprocess.run([sys.executable, "-c", _HELD_UP], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in time\n", "")
