"""How a world counts: one object, named in every result, instead of switches here and there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Protocol

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import Ints
from muster.formatting import enumerated
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.schedulers.contract import SizeSpeeds
from muster.schedulers.presets import known_presets
from muster.schedulers.registry import takes
from muster.simulation.network import NetworkOfRun
from muster.workload.jobs import JobTable
from muster.workload.trace import Trace

ENTRY_POINTS = "muster.rules"
_WITHOUT_EXPERIMENTS = (
    "clone the source repository and run make install there for the rules of published simulators"
)


class WorkInBlocks(Protocol):
    """Work and leases that end only where a block of work does."""

    @property
    def used_columns(self) -> Sequence[str]:
        """The columns of the trace beside the native ones that decide the run."""

    def start(self, job: int, now: float, lease_end: float, ledger: Ledger) -> None:
        """Work out when a job that starts now on a lease stops, and write it into its status."""

    def stop(self, job: int) -> bool:
        """Write what a job has done by its stop into its status; whether it gave up its lease early."""


class WorkLaw(Protocol):
    """How fast jobs work and what a start or a change costs them, where Muster's own speed law does not say it."""

    @property
    def size_speeds(self) -> SizeSpeeds | None:
        """What schedulers may know of speeds on other sizes; None: nothing."""

    def next_change(self) -> float:
        """The next moment at which a running job's speed changes by itself; inf: none does."""

    def due(self, now: float) -> Ints:
        """The jobs whose speed changes by itself by now; some of them may have ended."""

    def rate(self, job: int, now: float, ledger: Ledger) -> None:
        """Write the speed, the end of the pause and the completion time of a job into its status.

        The job holds something else from now on, or it is due. Its status is settled up to now.
        """


@dataclass(frozen=True)
class Rules:
    """What may differ between simulators that otherwise do the same."""

    name: str
    sentence: str
    whole_iterations: bool = False
    """Progress in whole iterations a round, what is left of the round is lost, completion at the round's end."""
    round_seconds: float | None = None
    """The rounds that they count in, unless a setting says otherwise."""
    restart_cost_seconds: float | None = None
    """What their authors charge for an interruption, unless the user states it; None: the default."""
    speed_law: Callable[[JobTable, Cluster], JobTable] | None = None
    """Gives the jobs of a table the models of another speed law on a cluster."""
    offers: bool = False
    """GPUs are offered only when jobs arrive and GPUs are free, and a second for each GPU after a job stopped."""
    network: str = ""
    """The flavour of the network model, whatever the options say; empty: theirs."""
    blocks: (
        Callable[[JobTable, Trace, NetworkOfRun | None], tuple[WorkInBlocks | None, Sequence[str]]] | None
    ) = None
    """Makes the blocks of a run, in which its jobs then work, or none and a note that says why not."""
    work: Callable[[JobTable, Cluster], WorkLaw] | None = None
    """Makes the law by which the jobs of a run work; None: Muster's own."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that the rules impose on a composed scheduler."""
    settings_of_leases: Mapping[str, str] = field(default_factory=dict)
    """Likewise on a scheduler that leases; the others have none such."""

    def settings_for(self, scheduler: str) -> Mapping[str, str]:
        """Those, and where the rules' authors had this scheduler (presets `RULES:...`) what it had with them.

        InputError for a scheduler that lacks one of the settings.
        """
        if lacking := [key for key in self.settings if not takes(scheduler, key)]:
            what = f"--rules {self.name} sets {enumerated(lacking)}, which this scheduler does not have"
            raise InputError(Problem("--scheduler", what, found=scheduler))
        own = (
            preset.settings
            for preset in known_presets().values()
            if preset.name.startswith(f"{self.name}:") and preset.parts == scheduler.strip()
        )
        leases = {key: value for key, value in self.settings_of_leases.items() if takes(scheduler, key)}
        return {**self.settings, **leases, **next(own, {})}


EXACT = Rules("exact", "Continuous progress, completion at its true time.")


def rules_named(name: str) -> Rules:
    """The rules of that name, Muster's own or those of an installed package. InputError for an unknown name."""
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    known = (EXACT.name, *points)
    if name not in known:
        hint = did_you_mean(name, known, cutoff=0.4) or ("" if points else _WITHOUT_EXPERIMENTS)
        what = with_hint(f"allowed: {', '.join(known)}", hint)
        raise InputError(Problem("--rules", what, found=name))
    if name == EXACT.name:
        return EXACT
    rules = points[name].load()
    if not isinstance(rules, Rules):
        what = (
            f"{points[name].value} is a {type(rules).__name__}; an entry point of {ENTRY_POINTS} names Rules"
        )
        raise InputError(Problem("--rules", what, found=name))
    return rules
