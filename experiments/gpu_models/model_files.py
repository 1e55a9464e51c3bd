"""Makes model files of what `experiments.gpu_models.measure` wrote, and says how well the profiles predict.

python -m experiments.gpu_models.model_files FOLDER --out muster/workload/model_files
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.gpu_models.documents import Measured, read
from experiments.gpu_models.recipes import RECIPES, STORE_MB_PER_S
from muster.cli import profile_view as view
from muster.formatting import percent
from muster.profiling.grid import predicted_steps_per_s
from muster.profiling.model import MEMORY_SHARES, model_of, model_toml
from muster.profiling.optimistic import Profile
from muster.workload.models import Model

_FIGURES = 5
"""Significant ones of a number in the file."""


def main(folder: Path, out: Path) -> None:
    """A model file for each profile in the folder, and a table of errors."""
    print("| model | points | time of profile | error: median | 9 of 10 | worst | every point would take |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.json")):
        measured = read(path)
        if measured.profile is None:
            continue
        profile = replace(measured.profile, compute=measured.compute)
        model = model_from(measured.model, profile, measured.machine)
        errors = prediction_errors(model, measured.held_out)
        text = model_toml(model, remarks(measured, profile, errors))
        (out / f"{model.name}.toml").write_text(text, encoding="utf-8")
        print(_row(model, profile, measured, errors))


def model_from(key: str, profile: Profile, machine: dict[str, Any]) -> Model:
    """The model, its numbers rounded, with the machine in its source."""
    recipe, versions = RECIPES[key], machine["versions"]
    on = f"one {machine['gpu']} (driver {machine['driver']})" if machine["gpu"] else "no GPU"
    source = (
        f"own measurement on {machine['date']}: {recipe.what}; {on}, {machine['cores']} cores of {machine['cpu']}, "
        f"PyTorch {versions.get('torch', '?')}; a store of {STORE_MB_PER_S:g} MB/s; {view.how(profile)}"
    )
    gpu_type = machine["gpu_type"] or None
    name = f"{recipe.name}-{gpu_type}" if gpu_type else recipe.name
    model = model_of(profile, name=name, family=recipe.family, batch=None, source=source)
    rounded: Model = _rounded(model)
    return replace(rounded, gpu_type=gpu_type)


def _rounded(thing: Any) -> Any:
    """The same with all its numbers rounded."""
    if isinstance(thing, float):
        return float(f"{thing:.{_FIGURES}g}")
    if isinstance(thing, tuple):
        return tuple(map(_rounded, thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **{part.name: _rounded(getattr(thing, part.name)) for part in fields(thing)})
    return thing


def prediction_errors(model: Model, held_out: Sequence[dict[str, Any]]) -> list[float]:
    """Predicted over measured, less 1, of each point that the profile did not visit."""
    return [
        predicted_steps_per_s(model, point["cores"], point["memory_gb"]) / point["steps_per_s"] - 1
        for point in held_out
    ]


def remarks(measured: Measured, profile: Profile, errors: Sequence[float]) -> list[str]:
    """How it was measured and how well it predicts, on top of the model file."""
    lines = view.remarks(profile, measured.command)
    for point, error in zip(measured.held_out, errors, strict=True):
        cached = percent(point["memory_gb"] / profile.reading.full_gb) if profile.reading else "any part"
        lines.append(
            f"Not visited: {point['cores']:g} cores, {cached} cached: {point['steps_per_s']:.5g} steps/s "
            f"± {percent(point['error'])}, predicted {100 * error:+.1f} %"
        )
    if errors:
        middle, most, worst = map(percent, _sizes(errors))
        lines.append(
            f"Error of these predictions: median {middle}, nine of ten within {most}, worst {worst}."
        )
    return lines


def _sizes(errors: Sequence[float]) -> tuple[float, float, float]:
    """Median, 90th percentile and largest, without their signs."""
    sizes = np.abs(errors)
    return float(np.median(sizes)), float(np.quantile(sizes, 0.9)), float(sizes.max())


def _row(model: Model, profile: Profile, measured: Measured, errors: Sequence[float]) -> str:
    """A line of the table; every point of CPU and memory takes as long as the held-out ones in the mean."""
    start = f"| {model.name} | {len(profile.rates)} | {profile.seconds:.0f} s "
    if not errors:
        return f"{start}| not measured | | | |"
    points = len(profile.points) * len(MEMORY_SHARES)
    all_seconds = points * measured.held_out_seconds / len(errors)
    sizes = " | ".join(map(percent, _sizes(errors)))
    ratio = all_seconds / profile.seconds
    return f"{start}| {sizes} | {points} points, {all_seconds:.0f} s, {ratio:.1f} times as long |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the JSON files")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model files")
    chosen = parser.parse_args()
    main(chosen.folder, chosen.out)
