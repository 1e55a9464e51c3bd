"""A job with processes of its own: `pool`, or `fail once|persistent` in the midst of a loader's work."""

from __future__ import annotations

import multiprocessing
import sys
import time

from muster import training


def square(number: int) -> int:
    return number * number


def main(what: str, how: str = "") -> None:
    run = training.join()
    if what == "pool":
        for _ in run.steps([1], state={}):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                squares = pool.map(square, range(3))
                pool.map_async(time.sleep, [1000.0, 1000.0])
                while not pool._taskqueue.empty():  # type: ignore[attr-defined]
                    pass
        print(squares)
        return
    from torch.utils.data import DataLoader

    loader = DataLoader(list(range(64)), batch_size=4, num_workers=2, persistent_workers=how == "persistent")
    steps = run.steps(loader, state={})
    next(steps)
    sys.kept = steps  # type: ignore[attr-defined]
    raise RuntimeError("the job fails")


if __name__ == "__main__":
    main(*sys.argv[1:])
