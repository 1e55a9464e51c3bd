"""The process that simulates when jobs start."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.service import start_process

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Niceness:
    value: int


class NicenessQuestion:
    """Answered with the niceness of the process that answers."""

    def answer(self) -> Sequence[Mapping[int, Niceness]]:
        return [{1: Niceness(os.nice(0))}]


def test_a_start_is_simulated_with_less_priority() -> None:
    done = subprocess.run(
        [sys.executable, "-m", start_process.__name__],
        input=pickle.dumps(NicenessQuestion()),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [{"1": [min(os.nice(0) + 10, 19)]}]
