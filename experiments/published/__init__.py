"""Replicas of what the authors of papers published: their schedulers, presets and rules, as plug-ins for comparison.

The entry points are in `experiments/pyproject.toml`.
"""
