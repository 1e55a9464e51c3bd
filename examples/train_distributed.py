"""Trains a small classifier with a process a GPU (or a few on the CPU); alone, or under Muster.

    torchrun --nproc-per-node 2 examples/train_distributed.py [--epochs 3]
    muster submit job.toml            # with gpus = 2 and ranks = "per-gpu"; see docs/how-to/service.md

The last line is the final loss, averaged over the processes.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from muster import training

SAMPLES, FEATURES, CLASSES = 960, 32, 4
BATCHES_AN_UPDATE = 2


class Points:
    """Points around a centre for each class, the same every time."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        # A generator of its own: the job's random numbers are for `transform`.
        noise = torch.randn(FEATURES, generator=torch.Generator().manual_seed(index))
        label = index % CLASSES
        return noise + label, label


def main() -> None:
    """As any script for DistributedDataParallel; Muster sets what torchrun sets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()

    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl")
    else:
        device = torch.device("cpu")
        torch.distributed.init_process_group("gloo")

    run = training.join(seed=1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES)).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
    data: Any = training.CachedDataset(Points())
    loader: DataLoader[Any] = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    last = {"loss": torch.zeros((), device=device)}
    state = {"model": model, "optimizer": optimizer, "last": last}
    for points, labels in run.steps(loader, state=state, epochs=chosen.epochs, accumulate=BATCHES_AN_UPDATE):
        loss = nn.functional.cross_entropy(parallel(points.to(device)), labels.to(device))
        torch.autograd.backward(loss / BATCHES_AN_UPDATE)
        if run.ends_update:
            optimizer.step()
            optimizer.zero_grad()
        last["loss"] = loss.detach()
        # What is in `state` comes back as the first process had it, so it has to be the same on all.
        torch.distributed.all_reduce(last["loss"], op=torch.distributed.ReduceOp.SUM)
        last["loss"] /= torch.distributed.get_world_size()
    if torch.distributed.get_rank() == 0:
        print("final loss", last["loss"].item().hex())
    torch.distributed.barrier()  # the first process has the store that the others still ask
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
