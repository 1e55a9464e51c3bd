"""A whole daemon, as its operator starts and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.service.home import read_endpoint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from muster.cli import main; main()"]
    environment = {**os.environ, "MUSTER_HOME": str(tmp_path)}
    daemon = subprocess.Popen(
        [*command, "serve", "--scheduler", "fifo", "--pretend", "1x2gpu"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    try:
        assert "serves 2 GPUs" in daemon.stdout.readline()
        submitted = subprocess.run([*command, "submit", "--", "true"], env=environment, check=False)
        assert submitted.returncode == 0
    finally:
        daemon.send_signal(number)
        _, log = daemon.communicate(timeout=60)
    assert daemon.returncode == 0
    assert read_endpoint(tmp_path) is None
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"
