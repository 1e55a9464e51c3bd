"""Where jobs really run. One thin interface; this machine, Slurm, Ray, Kubernetes are engines behind it."""

from muster.service.engines.interface import Engine, EngineCapabilities, Exit, Launch, Observed

__all__ = ["Engine", "EngineCapabilities", "Exit", "Launch", "Observed"]
