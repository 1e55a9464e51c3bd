"""A job that knows if it runs twice at once, and keeps a diary of its steps: `observer_process.py DIARY STEPS SECONDS`.

Its last line is a sum that depends on each step having been made once, in order.
"""

from __future__ import annotations

import fcntl
import sys
import time
from pathlib import Path

from muster import training


def main(diary: Path, steps: int, seconds: float) -> None:
    with diary.with_suffix(".alone").open("w") as alone, diary.open("a") as pages:
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pages.write("twice at once\n")
            raise
        pages.write("start\n")
        pages.flush()
        run = training.join(seed=1)
        total = {"sum": 0}
        for batch in run.steps(list(range(steps)), state={"total": total}):
            time.sleep(seconds)
            total["sum"] = (31 * total["sum"] + batch) % 1_000_003
            pages.write(f"{run.step}\n")
            pages.flush()
        pages.write(f"sum {total['sum']}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
