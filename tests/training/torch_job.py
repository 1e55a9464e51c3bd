"""A small image classifier with everything that has a state: dropout, batch norm, AdamW, schedule, scaler.

torch_job.py [--workers N] [--gated]     ranks by RANK, WORLD_SIZE and MASTER_* (gloo), as torchrun sets them
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import zlib
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from muster import training
from tests.training.stores import Images

IMAGES, BATCH, EPOCHS = 80, 8, 2


def decode_and_augment(sample: tuple[bytes, int]) -> tuple[torch.Tensor, int]:
    """Random numbers from all three generators."""
    packed, label = sample
    image = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(48, 48, 3)
    left, top = random.randrange(16), int(np.random.randint(16))
    pixels = torch.from_numpy(image[top : top + 32, left : left + 32].copy()).permute(2, 0, 1).float() / 255
    return pixels + 0.1 * torch.randn(3, 32, 32), label


def alexlet() -> nn.Module:
    """Two convolutions and a head."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * 36, 4),
    )


def train(workers: int = 0, gated: bool = False, log: list[int] | None = None, **loading: Any) -> str:
    """The last loss and a sum over the weights, to the last bit."""
    torch.use_deterministic_algorithms(True)
    run = training.join(seed=11)
    torch.manual_seed(2)
    model = alexlet()
    data: Any = training.CachedDataset(Images(IMAGES), transform=decode_and_augment)
    sampler: DistributedSampler[Any] | None = None
    if torch.distributed.is_initialized():
        model = DistributedDataParallel(model)
        sampler = DistributedSampler(data, seed=4)
    loader: DataLoader[Any] = DataLoader(
        data, BATCH, shuffle=sampler is None, sampler=sampler, num_workers=workers, **loading
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
    loss = torch.zeros(())
    losses: dict[str, list[str]] = {"all": []}
    state = {
        "model": model,
        "optimizer": optimizer,
        "schedule": schedule,
        "scaler": scaler,
        "losses": losses,
    }
    for images, labels in run.steps(loader, state=state, epochs=EPOCHS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        torch.autograd.backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        # The first rank's state is everybody's after a resume, so what is kept must be the same on all.
        mean = loss.detach().clone()
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(mean)
        losses["all"].append(float(mean).hex())
        if log is not None:
            log.append(run.step)
        if gated:
            print(run.step, flush=True)
            sys.stdin.readline()
    weights = math.fsum(float(parameter.detach().double().sum()) for parameter in model.parameters())
    return f"{' '.join(losses['all'])} {weights.hex()}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--gated", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("gloo")
    print(train(chosen.workers, chosen.gated))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # The first rank has the store that the others still ask.
        torch.distributed.destroy_process_group()
