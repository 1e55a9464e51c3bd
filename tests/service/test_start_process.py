"""The process that simulates when jobs start."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

from muster.service import start_process
from muster.simulation.start_estimates import ExpectedQueue, StartEstimate

ROOT = Path(__file__).parents[2]


class NicenessQuestion:
    """Answered with the niceness of the process that answers, in the place of a start."""

    def answer(self) -> list[ExpectedQueue]:
        niceness = float(os.nice(0))
        return [ExpectedQueue({"1": StartEstimate(niceness, niceness, niceness, draws=1)}, {}, 1)]


def test_a_start_is_simulated_with_less_priority() -> None:
    done = subprocess.run(
        [sys.executable, "-m", start_process.__name__],
        input=pickle.dumps(NicenessQuestion()),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [[{"1": [min(os.nice(0) + 10, 19)] * 3 + [1]}, {}, 1]]
