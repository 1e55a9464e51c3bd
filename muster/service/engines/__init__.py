"""Where jobs really run. One thin interface; this machine, Slurm, Ray, Kubernetes are engines behind it."""

from muster.service.engines.interface import (
    AdoptJob,
    CloseJob,
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
    OwnerRequest,
    ResizeStart,
    SendNotice,
    SubmittedJob,
)

__all__ = [
    "AdoptJob",
    "CloseJob",
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
    "OwnerRequest",
    "ResizeStart",
    "SendNotice",
    "SubmittedJob",
]
