"""Where jobs really run. One thin interface; this machine, Slurm, Ray, Kubernetes are engines behind it."""

from muster.service.engines.interface import (
    Command,
    Engine,
    EngineCapabilities,
    EngineNode,
    EngineView,
    Exit,
    ForgetStart,
    KillStart,
    Launch,
    Observed,
    ResizeStart,
    SendNotice,
)

__all__ = [
    "Command",
    "Engine",
    "EngineCapabilities",
    "EngineNode",
    "EngineView",
    "Exit",
    "ForgetStart",
    "KillStart",
    "Launch",
    "Observed",
    "ResizeStart",
    "SendNotice",
]
