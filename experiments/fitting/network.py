"""Fit network models to data and print how far they are off: `python -m experiments.fitting.network DATA`.

DATA holds one folder an application with `placements.csv` (Pollux' profiles); `--layers FILE` fits the
compact form to a layer file instead. `--write FOLDER` keeps the fits as model files.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Column, Table

from experiments.fitting.compact import fit_compact
from experiments.fitting.measured import fit_measured, read_placements, read_scalability
from muster.files import write_folder_aside
from muster.problems import InputError, Problem
from muster.speed.network.layers import read_layers
from muster.speed.network.model_file import NetworkModelFile, write_model_file

POLLUX_NIC_GB_PER_S = 6.25
"""The 50 Gbit/s of the machines of Pollux' testbed (Pollux §5.1)."""
OWN_LICENCE = "own fit; the licence of the data holds for what it was fitted to"


def fit_folder(data: Path, nic_gb_per_s: float) -> tuple[Table, list[NetworkModelFile]]:
    """Errors by application, and the models, each at the smallest batch size that the data validates."""
    folders = sorted({path.parent for path in data.glob("*/placements.csv*")})
    if not folders:
        raise InputError(Problem(str(data), "holds no folder with a placements.csv or placements.csv.xz"))
    table = Table(
        Column("application", no_wrap=True),
        *("rows", "median", "mean", "90 %", "worst", "k", "2 machines, signed", "unseen machines"),
    )
    files = []
    for folder in folders:
        times = read_placements(folder)
        fit = fit_measured(times)
        off = fit.errors(times)
        shown = [f"{100.0 * value:.1f} %" for value in (*_quantiles(off), off.max())]
        pairs = times.machines == 2
        on_pairs = 100.0 * np.median(fit.step_seconds(times)[pairs] / times.seconds[pairs] - 1.0)
        unseen = 100.0 * np.median(fit.errors(read_scalability(folder)))
        last = [f"{fit.overlap:.2f}", f"{on_pairs:+.1f} %", f"{unseen:.1f} %"]
        table.add_row(folder.name, str(off.size), *shown, *last)
        batch = _smallest_validated_batch(folder, int(times.batch.min()))
        error = f"step seconds on {off.size} rows of several GPUs: median {shown[0]}, worst {shown[3]}"
        error += f", on 2 machines {on_pairs:+.0f} % in the median"
        source = f"fit of {folder.name}/placements.csv at batch size {batch} a GPU"
        files.append(
            NetworkModelFile(fit.model(folder.name, batch, nic_gb_per_s), (), source, OWN_LICENCE, error)
        )
    return table, files


def fit_layers(path: Path, compute_scales: Mapping[str, float]) -> tuple[Table, list[NetworkModelFile]]:
    """Errors by model of a layer file, whose compute is first multiplied by the model's scale (default 1)."""
    layered = read_layers(path)
    unknown = [
        Problem("--compute-scale", f"{path} has {', '.join(layered)}", found=name)
        for name in compute_scales
        if name not in layered
    ]
    if unknown:
        raise InputError(*unknown)
    table = Table("model", "layers", "mean", "worst", caption="points of efficiency")
    files = []
    for name, model in layered.items():
        scale = compute_scales.get(name, 1.0)
        fit = fit_compact(model.scaled(scale))
        mean, worst = 100.0 * fit.mean_error, 100.0 * fit.worst_error
        table.add_row(name, str(fit.model.messages_per_iteration), f"{mean:.2f}", f"{worst:.2f}")
        error = f"efficiency over the placements of compact.py: mean {mean:.2f} points, worst {worst:.2f}"
        source = f"fit of {path.name} with compute x {scale:g}"
        files.append(NetworkModelFile(fit.model, (), source, OWN_LICENCE, error))
    return table, files


def _quantiles(off: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float, float]:
    return float(np.median(off)), float(off.mean()), float(np.percentile(off, 90))


def _smallest_validated_batch(folder: Path, otherwise: int) -> int:
    """From the names `validation-<batch>.csv`: the application's own batch size is the smallest of them."""
    names = (re.fullmatch(r"validation-(\d+)\.csv", path.name) for path in folder.iterdir())
    return min((int(name[1]) for name in names if name), default=otherwise)


def _scale(text: str) -> tuple[str, float]:
    name, _, factor = text.partition("=")
    return name, float(factor)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, or 2 with the problems on stderr."""
    parser = argparse.ArgumentParser(prog="python -m experiments.fitting.network", description=__doc__)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("data", nargs="?", type=Path, metavar="DATA")
    data.add_argument("--layers", type=Path, metavar="FILE")
    parser.add_argument("--compute-scale", type=_scale, action="append", default=[], metavar="MODEL=FACTOR")
    parser.add_argument("--nic", type=float, default=POLLUX_NIC_GB_PER_S, help="GB/s of what was measured")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if not 0.0 < options.nic < float("inf"):
            raise InputError(Problem("--nic", "allowed: more than 0 GB/s", found=options.nic))
        if options.layers:
            table, files = fit_layers(options.layers, dict(options.compute_scale))
        else:
            table, files = fit_folder(options.data, options.nic)
        if options.write:
            with write_folder_aside(options.write) as folder:
                for file in files:
                    write_model_file(file, folder / f"{file.model.name.lower()}.toml")
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
