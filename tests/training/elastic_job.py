"""A job that may have any number of ranks, whose result does not depend on it by a bit.

elastic_job.py [--rigid] [--stopped-in N]

As a script it waits, in its first N starts, after five steps until it is asked to stop.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from muster import training
from muster.training import link

SAMPLES, FEATURES, EPOCHS = 23, 5, 2
LONGEST_WAIT_SECONDS = 120.0


class Points:
    """A sample and its augmentation: random numbers of all three generators."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, np.ndarray]:
        noise = [random.random(), float(np.random.random()), float(torch.rand(()))]
        return index, np.cos(index * np.arange(1.0, FEATURES + 1)) + np.resize(noise, FEATURES)


@dataclass(frozen=True)
class Work:
    """What a job of several starts does."""

    batch: int
    local_batch: int | None
    elastic: bool = True
    workers: int = 0


def learn(work: Work, after_update: Callable[[int], None] = lambda _: None) -> tuple[str, list[Any]]:
    """Trains a linear model whose gradient is summed sample by sample in the order of the total batch.

    The first rank calls `after_update` with the steps done. All return the weights' bits and the samples of updates.
    """
    link.AGREE_SECONDS = link.REPORT_SECONDS = 0.0  # so that the run may be stopped at any step
    run = training.join(seed=3)
    loader = torch.utils.data.DataLoader(
        Points(), work.batch, shuffle=True, num_workers=work.workers, collate_fn=list
    )
    model: dict[str, Any] = {"weights": np.ones(FEATURES), "momentum": np.zeros(FEATURES), "seen": []}
    mine: list[tuple[int, np.ndarray]] = []
    elastic: dict[str, Any] = {"elastic": True, "local_batch": work.local_batch} if work.elastic else {}
    for samples in run.steps(loader, state={"model": model}, epochs=EPOCHS, **elastic):
        if run.weight > 0:
            mine += [(index, (np.sum(model["weights"] * point) - index) * point) for index, point in samples]
        if not run.ends_update:
            continue
        of_all: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(of_all, mine)
        batch, mine = [sample for each in of_all for sample in each], []
        gradient = np.zeros(FEATURES)
        for _, part in batch:
            gradient = gradient + part
        model["momentum"] = 0.9 * model["momentum"] + gradient / len(batch)
        model["weights"] = model["weights"] - 0.01 * model["momentum"]
        model["seen"].append([index for index, _ in batch])
        if torch.distributed.get_rank() == 0:
            after_update(run.step + 1)
    return model["weights"].tobytes().hex(), model["seen"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rigid", action="store_true")
    parser.add_argument("--stopped-in", type=int, default=0)
    chosen = parser.parse_args()
    torch.distributed.init_process_group("gloo")
    steps: list[int] = []

    def wait(step: int) -> None:
        steps.append(step)
        if len(steps) == 5 and int(os.environ["MUSTER_EPOCH"]) <= chosen.stopped_in:
            wait_to_be_stopped()

    result, seen = learn(Work(batch=2, local_batch=1, elastic=not chosen.rigid), wait)
    if torch.distributed.get_rank() == 0:
        print(torch.distributed.get_world_size(), result, json.dumps(seen), flush=True)
    torch.distributed.barrier()  # the first rank has the store that the others still ask
    torch.distributed.destroy_process_group()


def wait_to_be_stopped() -> None:
    """Until the notice to this start says so; a failure after `LONGEST_WAIT_SECONDS`."""
    path, epoch = Path(os.environ["MUSTER_RUN_DIR"]) / "notice.json", int(os.environ["MUSTER_EPOCH"])
    for _ in range(int(LONGEST_WAIT_SECONDS / 0.02)):
        notice = json.loads(path.read_text()) if path.exists() else {}
        if notice.get("epoch") == epoch and notice["stop"]:
            return
        select.select([], [], [], 0.02)
    raise TimeoutError("it is never asked to stop")


if __name__ == "__main__":
    main()
