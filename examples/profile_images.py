"""Trains an image classifier whose hunger for CPU, memory and storage can be chosen; something to profile.

    muster profile --name eyes -- python examples/profile_images.py --side 160 --store-mb-per-s 8
    muster profile --name brain -- python examples/profile_images.py --side 64 --width 32 --workers 1
    muster profile --name ranks --workers 2 -- python examples/profile_images.py --width 32 --batch 32 --elastic

The first waits for its input: images are inflated, unfiltered, cropped, resized and coloured by the loader's
workers, from a store as slow as a shared disk may be. The second waits for its network. The third may have any number
of ranks, which share each batch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
import zlib
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from muster import training

CLASSES = 4
BURST_SECONDS = 0.01


class StoredImages:
    """Images packed as PNG does it (differences to the left, deflated), in a store of limited bandwidth."""

    def __init__(self, samples: int, side: int, bytes_per_s: float) -> None:
        rng = np.random.default_rng(1)
        coarse = rng.integers(0, 240, (samples, side // 8, side // 8, 3), dtype=np.uint8)
        self._packed = []
        for picture in coarse:
            pixels = picture.repeat(8, axis=0).repeat(8, axis=1)
            pixels += rng.integers(0, 12, pixels.shape, dtype=np.uint8)
            differences = np.diff(pixels, axis=1, prepend=np.uint8(0))
            self._packed.append(zlib.compress(differences.tobytes(), 1))
        self._bytes_per_s = bytes_per_s
        self._free_at = multiprocessing.Value("d", 0.0)
        """When the store has delivered all that was asked for, by all workers."""

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        packed = self._packed[index]
        with self._free_at.get_lock():
            # A reader that overslept may catch up a little.
            begin = max(self._free_at.value, time.monotonic() - BURST_SECONDS)
            self._free_at.value = due = begin + len(packed) / self._bytes_per_s
        time.sleep(max(0.0, due - time.monotonic()))
        return packed, index % CLASSES


class Augment:
    """Decodes an image and changes it at random, as image models are trained."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, sample: tuple[bytes, int]) -> tuple[torch.Tensor, int]:
        """The image, ready for the network, and its class."""
        packed, label = sample
        differences = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(self.side, self.side, 3)
        pixels = torch.from_numpy(np.cumsum(differences, axis=1, dtype=np.uint8))
        image = pixels.permute(2, 0, 1).float() / 255
        size = random.randint(self.side // 2, self.side)
        top, left = random.randint(0, self.side - size), random.randint(0, self.side - size)
        cropped = image[:, top : top + size, left : left + size]
        if random.random() < 0.5:
            cropped = cropped.flip(2)
        resized = nn.functional.interpolate(cropped[None], size=(self.side, self.side), mode="bilinear")[0]
        coloured = resized * random.uniform(0.6, 1.4)
        grey = coloured.mean(dim=0, keepdim=True)
        return ((coloured - grey) * random.uniform(0.6, 1.4) + grey).clamp(0, 1), label


def main() -> None:
    """Trains until its epochs are over, or somebody ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--side", type=int, default=64, help="of an image, in pixels; a multiple of 8")
    parser.add_argument("--width", type=int, default=4, help="channels of the network")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store-mb-per-s", type=float, default=float("inf"))
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--elastic", action="store_true", help="share each batch among the ranks there are")
    chosen = parser.parse_args()

    run = training.join(seed=1)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    width = chosen.width
    model = nn.Sequential(
        nn.Conv2d(3, width, 5, stride=4),
        nn.ReLU(),
        nn.Conv2d(width, 4 * width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4 * width, 4 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, CLASSES),
    )
    parallel = model
    if chosen.elastic and os.environ.get("WORLD_SIZE", "1") != "1":
        torch.distributed.init_process_group("gloo")
        parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    store = StoredImages(chosen.samples, chosen.side, 1e6 * chosen.store_mb_per_s)
    data: Any = training.CachedDataset(store, transform=Augment(chosen.side))
    loader: DataLoader[Any] = DataLoader(
        data, batch_size=chosen.batch, shuffle=True, num_workers=chosen.workers, persistent_workers=True
    )
    state = {"model": model, "optimizer": optimizer}
    for images, labels in run.steps(loader, state=state, epochs=chosen.epochs, elastic=chosen.elastic):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(images), labels) * run.weight
        torch.autograd.backward(loss)
        optimizer.step()


if __name__ == "__main__":
    main()
