"""The noise scale of Pollux's applications: `python -m experiments.fitting.noise_scale TABLES` prints `[efficiency]`.

TABLES is a folder with `apps.csv` and `statistics.csv`: the squared norm of the gradient and its variance by epoch, in
training with each of several batches. The first epoch, in which noise is least, and each tenth of the rest have the
median of their epochs and batches.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.elastic.efficiency import Application, applications
from muster.speed.statistical_efficiency import gain

_PIECES = 10


@dataclass(frozen=True)
class NoiseFit:
    """The fields of `[efficiency]`, and relative errors of the progress of an iteration."""

    progress: tuple[float, ...]
    noise_scale: tuple[float, ...]
    rows: int
    median_error: float
    worst_error: float

    def toml(self, app: str) -> str:
        """The table of a model file."""
        source = f"own fit to the gradient statistics of {app} in the profiles of Pollux (OSDI 2021)"
        error = f"progress of an iteration, {self.rows} pairs of epoch and larger batch: "
        error += f"median {self.median_error:.1%}, worst {self.worst_error:.1%}"
        lists = f"progress = {_listed(self.progress)}\nnoise_scale = {_listed(self.noise_scale)}\n"
        return f'[efficiency]\n{lists}source = "{source}"\nlicence = "Apache-2.0"\nerror = "{error}"\n'


def _listed(values: tuple[float, ...]) -> str:
    """The values with three digits, as TOML."""
    return f"[{', '.join(format(float(format(value, '.3g')), 'g') for value in values)}]"


def fit_noise(app: Application) -> NoiseFit:
    """The medians of an application, and how far the progress of an iteration is from what was measured."""
    measured = np.array([app.statistics[batch] for batch in app.batches])
    with np.errstate(divide="ignore"):
        noise = app.initial_batch * measured[:, :, 1] / measured[:, :, 0]
    begins = np.array([0.0, *app.ends[:-1]]) / app.ends[-1]
    piece = np.ceil(begins * _PIECES - 1e-9).astype(np.int64)
    found, first = np.unique(piece, return_index=True)
    scale = np.array([float(np.median(noise[:, piece == each])) for each in found])
    times = np.array(app.batches[1:])[:, None] / app.initial_batch
    predicted = gain(times, np.ones(1), scale[np.searchsorted(found, piece)] / app.initial_batch)
    off = np.abs(predicted / gain(times, measured[1:, :, 0], measured[1:, :, 1]) - 1)
    return NoiseFit(
        tuple(begins[first].tolist()),
        tuple(scale.tolist()),
        off.size,
        float(np.median(off)),
        float(off.max()),
    )


if __name__ == "__main__":
    for name, application in applications(Path(sys.argv[1])).items():
        print(fit_noise(application).toml(name))
