"""Repeat the recorded runs of Sia's and Rubick's simulators in Muster's engine.

MUSTER_REFERENCE=FOLDER python -m experiments.elastic
"""

from __future__ import annotations

import os
from pathlib import Path

from experiments.elastic.parity import lines

if __name__ == "__main__":
    for line in lines(Path(os.environ["MUSTER_REFERENCE"])):
        print(line, flush=True)
