"""Runs a real job for some minutes and finds what it is sensitive to (Synergy, optimistic profiling).

Only CPU points are run, with every sample from memory; the memory axis is computed from the measured
bandwidths, because a cache that never evicts has a known number of hits. `profile_job` does it all,
`measure_grid` runs every point for comparison, `model_of` makes the model that simulator and scheduler use.
"""

from muster.profiling.grid import Grid, measure_grid
from muster.profiling.job import JobToProfile
from muster.profiling.model import model_of, model_toml, predicted_steps_per_s
from muster.profiling.optimistic import Profile, profile_job
from muster.profiling.rates import Precision, Rate

__all__ = [
    "Grid",
    "JobToProfile",
    "Precision",
    "Profile",
    "Rate",
    "measure_grid",
    "model_of",
    "model_toml",
    "predicted_steps_per_s",
    "profile_job",
]
