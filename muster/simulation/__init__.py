"""The imagined world: replays a trace on a cluster under a scheduler, as fast as it can.

run = simulate(trace, cluster, scheduler, Options(round_seconds=300))
run.write(folder)
"""

from muster.simulation.engine import PlanRefused, Progress
from muster.simulation.failures import Failures
from muster.simulation.options import Options
from muster.simulation.rules import EXACT, Rules, rules_named
from muster.simulation.simulate import Cost, Run, never_able, simulate

__all__ = [
    "EXACT",
    "Cost",
    "Failures",
    "Options",
    "PlanRefused",
    "Progress",
    "Rules",
    "Run",
    "never_able",
    "rules_named",
    "simulate",
]
