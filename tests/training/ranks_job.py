"""A job of several processes that prints the samples of its batches: `ranks_job.py CASE [NOTICE_AT]`.

At that step the first process gives the notice to stop.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, WeightedRandomSampler

from muster import training
from muster.problems import InputError
from muster.training.run_folder import give_notice

NUMBERS = list(range(16))


def loader_of(case: str, rank: int) -> DataLoader[int]:
    if case == "weighted":
        return DataLoader(NUMBERS, batch_size=2, sampler=WeightedRandomSampler([1.0] * 16, 8))
    if case == "uneven":
        return DataLoader(NUMBERS[: 8 if rank else 6], batch_size=2)
    if case == "divided":
        return DataLoader(NUMBERS, batch_size=2, sampler=DistributedSampler(NUMBERS))
    if case == "in order":
        return DataLoader(NUMBERS, batch_size=4)
    return DataLoader(NUMBERS, batch_size=4, sampler=RandomSampler(NUMBERS))


def main(case: str, notice_at: int = -1) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    run = training.join(seed=rank if case == "seeds" else 7)
    kept = {"of": torch.full((3,), float(rank))}
    try:
        for batch in run.steps(loader_of(case, rank), state={"kept": kept}, epochs=2):
            print(*batch.tolist(), flush=True)
            if run.step == notice_at and rank == 0:
                folder = Path(os.environ["MUSTER_RUN_DIR"])
                give_notice(folder, int(os.environ["MUSTER_EPOCH"]), stop=True)
            torch.distributed.all_reduce(torch.zeros(1))
    except InputError as refused:
        print(refused, file=sys.stderr)
        sys.exit(2)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
