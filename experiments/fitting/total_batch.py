"""Model files from steps of one total batch on many places: `python -m experiments.fitting.total_batch TABLE FOLDER`.

TABLE is Rubick's (`rubick_seconds_per_iteration.csv`); its plan `ga` is plain data parallelism. The total batch, whose
samples the table does not state, counts as `PARTS` samples, which n GPUs share. Even places are fitted: the others of
`vit` take up to five times as long, which no model of the network says.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from experiments.fitting.measured import StepTimes, fit_measured
from muster.files import read_text

PARTS = 64
FAMILIES = {"bert": "language", "gpt2": "language", "roberta": "language", "t5": "language", "vit": "image"}
NIC_GB_PER_S = 100.0
"""Assumed of the A800 machines; the table does not state it."""
PLAN = "ga"


def model_file(path: Path, app: str) -> str:
    """The model file of an application of the table; its `batch` is that of the fewest GPUs that were measured."""
    rows = [
        row
        for row in csv.DictReader(read_text(path).splitlines())
        if (row["app"], row["plan"]) == (app, PLAN)
    ]
    times = StepTimes(
        np.array([int(row["gpus"]) for row in rows]),
        np.array([int(row["nodes"]) for row in rows]),
        np.array([PARTS // int(row["gpus"]) for row in rows]),
        np.array([float(row["iteration_s"]) for row in rows]),
    )
    even = np.array([len(set(row["placement"])) == 1 for row in rows])
    fit = fit_measured(
        StepTimes(times.gpus[even], times.machines[even], times.batch[even], times.seconds[even])
    )
    off = np.abs(fit.step_seconds(times) / times.seconds - 1)
    batch = int(times.batch.max())
    fixed = fit.fixed_seconds / fit.seconds_per_sample
    source = f"own fit to plan {PLAN} of {app} on A800 GPUs, 8 a machine, in the step times of Rubick "
    source += (
        f"(MLSys 2025, Apache-2.0); a sample is 1/{PARTS} of the total batch, whose samples are not stated; "
    )
    source += f"{NIC_GB_PER_S:g} GB/s of a machine's card are assumed"
    error = f"step seconds of {even.sum()} even places: median {np.median(off[even]):.1%}, "
    error += f"worst {off[even].max():.1%}; "
    error += f"of all {len(rows)} places: median {np.median(off):.1%}, worst {off.max():.1%}"
    numbers = asdict(fit.model("", batch, NIC_GB_PER_S))
    del numbers["name"]
    lines = [
        f"# rubick-{app}: what is known of its compute and network. Fields: docs/reference/models.md.",
        f'name = "rubick-{app}"',
        f'family = "{FAMILIES[app]}"',
        f"batch = {batch}",
        f'source = "{source}"',
        'licence = "Apache-2.0"',
        "",
        "[compute]",
        f"fixed_samples = {fixed:.3g}",
        f'source = "{source}"',
        f'error = "{error}"',
        "",
        "[network]",
        f'source = "{source}"',
        'licence = "Apache-2.0"',
        f'error = "{error}"',
        "",
        "[network.measured]",
        *(f"{name} = {number:.6g}" for name, number in numbers.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in FAMILIES:
        Path(sys.argv[2], f"rubick-{name}.toml").write_text(
            model_file(Path(sys.argv[1]), name), encoding="utf-8"
        )
