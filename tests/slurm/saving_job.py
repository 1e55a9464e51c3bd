"""A job that takes eight seconds to save once it gets SIGTERM, and says how often it got it.

Its second start ends at once.

saving_job.py FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from muster.training.run_folder import EXIT_STOPPED

SAVING_SECONDS = 8.0


def main(folder: Path) -> None:
    rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0")
    saved, said = folder / f"saved.{rank}", folder / f"said.{rank}"
    if saved.exists():
        return
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    said.write_text("up")
    while not signals:
        time.sleep(0.1)
    end = time.monotonic() + SAVING_SECONDS
    while time.monotonic() < end:
        time.sleep(0.1)
    saved.write_text(" ".join(signal.Signals(number).name for number in signals))
    sys.exit(EXIT_STOPPED)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
