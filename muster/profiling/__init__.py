"""Runs a real job for some minutes and finds what it is sensitive to (Synergy, optimistic profiling).

Only CPU points are run, with every sample from memory; the memory axis is computed from the measured
bandwidths, because a cache that never evicts has a known number of hits.

- `optimistic.profile_job` does it all. It needs NumPy alone, as the job itself does.
- `model.model_of` makes the model that simulator and scheduler use.
- `grid.measure_grid` runs every point for comparison.
"""
