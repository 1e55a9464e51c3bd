"""Trains one of the four models as a user of `muster.training` would.

    python3 -m experiments.gpu_models.train image --data FOLDER

Needs PyTorch, timm, transformers, tokenizers, Pillow and SciPy, none of which Muster depends on for this.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from experiments.gpu_models.recipes import RECIPES, STORE_MB_PER_S, TINY_BATCH, TINY_SAMPLES
from experiments.gpu_models.store import Store
from muster import training


def main() -> None:
    """Trains until its epochs are over, or somebody ends it."""
    chosen = arguments()
    trainer = Trainer(chosen.model, tiny=chosen.tiny)
    run = training.join(seed=1)
    loader = load(chosen)
    for batch in run.steps(loader, state=trainer.state, epochs=chosen.epochs, elastic=True):
        trainer.step(trainer.to_device(batch), weight=run.weight, update=run.ends_update)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=RECIPES)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder that experiments.gpu_models.data filled"
    )
    parser.add_argument("--batch", type=int, help="samples of a step (default: the recipe's)")
    parser.add_argument("--workers", type=int, help="processes that prepare samples (default: the recipe's)")
    parser.add_argument("--prefetch", type=int, default=1, help="batches that each of them prepares ahead")
    parser.add_argument("--store-mb-per-s", type=float, default=STORE_MB_PER_S)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--tiny", action="store_true", help="a tiny network and few samples, to try it out")
    return parser.parse_args(words)


def load(chosen: argparse.Namespace) -> DataLoader[Any]:
    """The loader of the stored samples, each prepared by a worker after the cache."""
    recipe = RECIPES[chosen.model]
    batch, samples = (TINY_BATCH, TINY_SAMPLES) if chosen.tiny else (recipe.batch, recipe.samples)
    prepare = module(chosen.model).Prepare(chosen.data)
    store = Store(chosen.data / chosen.model, samples, chosen.store_mb_per_s)
    data: Any = training.CachedDataset(store, transform=prepare)
    return DataLoader(
        data,
        batch_size=chosen.batch or batch,
        shuffle=True,
        drop_last=True,
        num_workers=chosen.workers or recipe.loader_workers,
        prefetch_factor=chosen.prefetch,
        persistent_workers=True,
        pin_memory=torch.cuda.is_available(),
    )


def module(model: str) -> Any:
    """Where its network and its preparation are; imported alone, as the others take seconds."""
    return importlib.import_module(f"experiments.gpu_models.{model}")


class Trainer:
    """A network and its optimizer, in mixed precision on the GPU."""

    def __init__(self, model: str, *, tiny: bool) -> None:
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self._on_gpu = torch.cuda.is_available()
        self._module = module(model)
        self._device = torch.device("cuda" if self._on_gpu else "cpu")
        self._network = self._module.network(tiny=tiny).to(self._device)
        self._optimizer = torch.optim.AdamW(self._network.parameters(), lr=1e-4, fused=self._on_gpu)
        self.state = {"model": self._network, "optimizer": self._optimizer}

    def to_device(self, batch: Any) -> list[Any]:
        """Its tensors, copied while the GPU computes."""
        return [part.to(self._device, non_blocking=True) for part in batch]

    def step(self, batch: list[Any], *, weight: float = 1.0, update: bool = True) -> None:
        """One step; its gradients are kept for the next one without `update`."""
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self._on_gpu):
            loss = self._module.loss(self._network, batch)
        torch.autograd.backward(weight * loss)
        if update:
            self._optimizer.step()
            self._optimizer.zero_grad()


if __name__ == "__main__":
    main()
