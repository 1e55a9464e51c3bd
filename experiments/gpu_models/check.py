"""Shows in a minute whether the four models train here, and where their input would limit them.

    python3 -m experiments.gpu_models.check

Prints for each the time of a step on the GPU alone (one batch, repeated), the CPU time of preparing a sample in one
process, the cores that prepare as fast as the GPU trains, and the GB of the GPU that a step takes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils.data import default_collate

from experiments.gpu_models import train
from experiments.gpu_models.data import make_data
from experiments.gpu_models.machine import describe_machine
from experiments.gpu_models.recipes import RECIPES, TINY_BATCH
from muster.cgroups import find_cgroups
from muster.profiling.cpus import cpu_points, has_quota

WARM_UP, STEPS = 5, 15


def main() -> None:
    """One model after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--tiny", action="store_true", help="tiny networks, to try it out")
    chosen = parser.parse_args()
    begin = time.monotonic()
    print(describe_machine())
    cgroups, why_not = find_cgroups()
    by_quota = cgroups is not None and has_quota(cgroups)
    print(
        f"CPU by {'quota' if by_quota else f'affinity ({why_not})'}: {cpu_points(None, fractions=by_quota)}"
    )
    with TemporaryDirectory(prefix="gpu-models-") as folder:
        make_data(Path(folder), chosen.models, tiny=True)
        print(f"{time.monotonic() - begin:.0f} s: made the data", flush=True)
        for model in chosen.models:
            _check(model, Path(folder), tiny=chosen.tiny)
            print(f"{time.monotonic() - begin:.0f} s: checked {model}", flush=True)


def _check(model: str, data: Path, *, tiny: bool) -> None:
    files = sorted((data / model).iterdir())
    count = TINY_BATCH if tiny else RECIPES[model].batch
    trainer = train.Trainer(model, tiny=tiny)
    prepare = train.module(model).Prepare(data)
    stored = [files[number % len(files)].read_bytes() for number in range(count)]
    prepare(stored[0])
    begin = time.process_time()
    samples = [prepare(sample) for sample in stored]
    cpu_seconds = (time.process_time() - begin) / count
    batch = trainer.to_device(default_collate(samples))
    step_seconds, step_cpu_seconds = _step_seconds(trainer, batch)
    memory_gb = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
    print(
        f"{model}: batch {count}, {1000 * step_seconds:.1f} ms a step ({1000 * step_cpu_seconds:.1f} ms of CPU), "
        f"{1000 * cpu_seconds:.2f} ms of CPU and {sum(map(len, stored)) / count / 1e3:.0f} kB a sample, "
        f"{count * cpu_seconds / step_seconds:.1f} cores to prepare them, "
        f"{sum(map(len, stored)) / step_seconds / 1e6:.0f} MB/s, {memory_gb:.1f} GB of the GPU"
    )


def _step_seconds(trainer: train.Trainer, batch: list[Any]) -> tuple[float, float]:
    """Of a step on the same batch, and the CPU seconds of launching it."""
    for _ in range(WARM_UP):
        trainer.step(batch)
    _wait()
    begin, cpu = time.monotonic(), time.process_time()
    for _ in range(STEPS):
        trainer.step(batch)
    cpu = time.process_time() - cpu
    _wait()
    return (time.monotonic() - begin) / STEPS, cpu / STEPS


def _wait() -> None:
    """Until the GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
