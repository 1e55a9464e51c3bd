"""Trains a small classifier on any number of GPUs (or processes on the CPU), which may change at every start.

    python examples/train_elastic.py [--epochs 3] [--total-batch 48] [--local-batch 16]
    torchrun --nproc-per-node 3 examples/train_elastic.py
    muster submit --gpus 2 --min-gpus 1 --max-gpus 4 --ranks per-gpu -- python examples/train_elastic.py

It prints the loss of each update, averaged over the total batch, and at the end a sum over the weights. Both depend
on the number of processes by rounding alone; see docs/how-to/elastic.md.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from muster import training

SAMPLES, FEATURES, CLASSES = 500, 32, 4


class Points:
    """Points around a centre for each class, the same every time."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        # A generator of its own: the job's random numbers are for `transform`.
        noise = torch.randn(FEATURES, generator=torch.Generator().manual_seed(index))
        label = index % CLASSES
        return noise + label, label


def jitter(sample: tuple[torch.Tensor, int]) -> tuple[torch.Tensor, int]:
    """An augmentation: its random numbers are the sample's, on whatever rank it is."""
    point, label = sample
    return point + 0.1 * torch.randn(FEATURES), label


def main() -> None:
    """As any script for DistributedDataParallel, without a DistributedSampler."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--total-batch", type=int, default=48)
    parser.add_argument("--local-batch", type=int, default=16)
    chosen = parser.parse_args()

    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }.items():
        os.environ.setdefault(name, value)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
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
    data: Any = training.CachedDataset(Points(), transform=jitter)
    loader: DataLoader[Any] = DataLoader(data, batch_size=chosen.total_batch, shuffle=True)
    state = {"model": model, "optimizer": optimizer}
    total = torch.zeros((), device=device)
    for points, labels in run.steps(
        loader, state=state, epochs=chosen.epochs, elastic=True, local_batch=chosen.local_batch
    ):
        loss = nn.functional.cross_entropy(parallel(points.to(device)), labels.to(device)) * run.weight
        torch.autograd.backward(loss)
        total += loss.detach()
        if run.ends_update:
            optimizer.step()
            optimizer.zero_grad()
            torch.distributed.all_reduce(total)
            total /= torch.distributed.get_world_size()
            if torch.distributed.get_rank() == 0:
                print("update", run.step + 1, "loss", f"{total.item():.6f}", flush=True)
            total.zero_()
    if torch.distributed.get_rank() == 0:
        weights = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
        print("weights", f"{weights:.6f}", flush=True)
    torch.distributed.barrier()  # the first process has the store that the others still ask
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
