"""What an operator installs: the systemd unit and the container image."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.cli.app import COMMANDS

DEPLOY = Path(__file__).parent.parent / "deploy"
UNIT = DEPLOY / "muster.service"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "muster.service"
    # The command need not be installed on the machine of the test.
    unit.write_text(UNIT.read_text().replace("/opt/muster/bin/muster", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if str(unit) in line]) == (0, [])


def test_stopping_the_unit_leaves_jobs_running() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    (command,) = re.findall(r"/bin/muster (\w+)", service["ExecStart"])
    assert command in COMMANDS
