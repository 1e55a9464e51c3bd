"""Muster decides when each training job on a shared GPU cluster runs, how much it gets and where it runs."""

__version__ = "0.2.0"
