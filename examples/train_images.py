"""Trains a small image classifier, on a GPU if there is one; alone, or under Muster, where it may be stopped and moved.

    python examples/train_images.py [--epochs 3] [--workers 2] [--samples 2000]

The last line is the final loss; on a CPU the same to the last bit however often the run was interrupted.
"""

from __future__ import annotations

import argparse
import random
import zlib
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from muster import training

SIDE, CROP, CLASSES = 64, 56, 4


class CompressedImages:
    """What a store would give: compressed pixels and a class, the same every time."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        # A generator of its own: the job's random numbers are for `transform`.
        rng = np.random.default_rng(index)
        label = index % CLASSES
        pixels = rng.normal(60 + 40 * label, 30, (SIDE, SIDE, 3)).clip(0, 255).astype(np.uint8)
        return zlib.compress(pixels.tobytes()), label


def decode_and_crop(sample: tuple[bytes, int]) -> tuple[torch.Tensor, int]:
    """Applied after the cache, to every sample alike; random numbers are welcome here."""
    packed, label = sample
    image = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(SIDE, SIDE, 3)
    left, top = random.randrange(SIDE - CROP), random.randrange(SIDE - CROP)
    cropped = image[top : top + CROP, left : left + CROP].copy()
    return torch.from_numpy(cropped).permute(2, 0, 1).float() / 255, label


def main() -> None:
    """Six lines of this are for Muster: join, the cache, the state, the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=2000)
    chosen = parser.parse_args()

    run = training.join(seed=1)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, CLASSES),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    data: Any = training.CachedDataset(CompressedImages(chosen.samples), transform=decode_and_crop)
    loader: DataLoader[Any] = DataLoader(data, batch_size=32, shuffle=True, num_workers=chosen.workers)
    last = {"loss": float("nan")}
    state = {"model": model, "optimizer": optimizer, "schedule": schedule, "last": last}
    for images, labels in run.steps(loader, state=state, epochs=chosen.epochs):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        torch.autograd.backward(loss)
        optimizer.step()
        last["loss"] = loss.item()
        if run.ends_epoch:
            schedule.step()
            print(f"epoch {run.epoch}: loss {last['loss']:.4f}", flush=True)
    print("final loss", last["loss"].hex())


if __name__ == "__main__":
    main()
