"""How fast training goes with w workers and p parameter servers, layer by layer.

Sources: SMD (INFOCOM 2021) and Optimus (EuroSys 2018).
"""

from muster.speed.parameter_server.layers import Layers
from muster.speed.parameter_server.step_time import (
    StepTime,
    asynchronous,
    bounded_staleness,
    layered,
    lumped,
    stack,
)

__all__ = ["Layers", "StepTime", "asynchronous", "bounded_staleness", "layered", "lumped", "stack"]
