"""How a world counts: one object, named in every result, instead of switches here and there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.problems import InputError, Problem, did_you_mean
from muster.schedulers.presets import PRESETS
from muster.schedulers.registry import takes


@dataclass(frozen=True)
class Rules:
    """What may differ between simulators that otherwise do the same."""

    name: str
    sentence: str
    whole_iterations: bool = False
    """Progress in whole iterations a round, what is left of the round is lost, completion at the round's end."""
    round_seconds: float | None = None
    """The rounds that they count in, where nobody says otherwise."""
    restart_cost_seconds: float | None = None
    """What their authors charge for an interruption, unless the user states it; None: the default."""
    published_speeds: bool = False
    """Nothing gained short of a job's whole best-case demand, and the authors' formula for gangs cut to a machine."""
    offers: bool = False
    """GPUs are offered only when jobs arrive and GPUs are free, and a second for each GPU after a job stopped."""
    network: str = ""
    """The flavour of the network model, whatever the options say; empty: theirs."""
    blocks: bool = False
    """Work and leases end only where a block of samples does (`simulation.blocks`); job groups cut work."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that the rules impose on a composed scheduler."""
    settings_of_leases: Mapping[str, str] = field(default_factory=dict)
    """Likewise on a scheduler that leases; the others have none such."""

    def settings_for(self, scheduler: str) -> Mapping[str, str]:
        """Those, and where the rules' authors had this scheduler (presets `RULES:...`) what it had with them."""
        own = (
            preset.settings
            for preset in PRESETS.values()
            if preset.name.startswith(f"{self.name}:") and preset.parts == scheduler.strip()
        )
        leases = {key: value for key, value in self.settings_of_leases.items() if takes(scheduler, key)}
        return {**self.settings, **leases, **next(own, {})}


EXACT = Rules("exact", "Continuous progress, completion at its true time.")

SYNERGY_PUBLISHED = Rules(
    "synergy-published",
    "As the Synergy authors' simulator: whole iterations a round, completion at the round's end, everybody "
    "competes anew each round, a job that has not run for 1000 hours goes first, speeds are all or nothing.",
    whole_iterations=True,
    round_seconds=300.0,
    restart_cost_seconds=0.0,
    published_speeds=True,
    settings={"preemptive": "true", "promote_after_seconds": "3600000", "promote_for_good": "true"},
)

DALLY_PUBLISHED = Rules(
    "dally-published",
    "As the program of Dally's authors without its leak: work and leases end with a block of 1000 samples a GPU, job "
    "groups cut work, GPUs are offered when jobs arrive and a second for each GPU of a job after it stopped (at once "
    "if it gave up its lease early), places are tried in the order of its hash tables, links count as in its backend.",
    restart_cost_seconds=0.0,
    offers=True,
    network="astra",
    blocks=True,
    settings_of_leases={"fit": "published", "bids": "with-offers", "forgets": "published"},
)

RULES = {rules.name: rules for rules in (EXACT, SYNERGY_PUBLISHED, DALLY_PUBLISHED)}


def rules_named(name: str) -> Rules:
    """The rules of that name."""
    if name not in RULES:
        hint = did_you_mean(name, RULES, cutoff=0.4)
        what = f"known rules: {', '.join(RULES)}" + (f"; {hint}" if hint else "")
        raise InputError(Problem("--rules", what, found=name))
    return RULES[name]
