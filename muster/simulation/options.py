"""What may be set about a simulation, apart from the trace, the cluster and the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.simulation.failures import Failures
from muster.simulation.rules import EXACT, Rules
from muster.speed.network.dimensions import FLAVOURS
from muster.speed.network_of_jobs import AUTO, NONE

FIRST_ARRIVAL = "first-arrival"
LIMIT = "limit"
"""What schedulers know of durations: the users' time limits; nothing of a job without one."""
DEFAULT_RESTART_COST_SECONDS = 60.0
"""What an interruption costs a job where neither the user nor the trace says it: a stop and a start-up of PyTorch."""


@dataclass(frozen=True)
class Options:
    """All settings of a run."""

    round_seconds: float | None = None
    """Decide only at multiples of this; None: at the rounds of the rules, else whenever something happens."""
    round_origin: float | str = 0.0
    """Where rounds start: seconds, or `first-arrival`, rounded up to a whole round."""
    restart_cost_seconds: float | None = None
    """Seconds lost by a job that changes its place or size, or starts again after it was stopped, where the trace
    does not state it; None: those of the rules, else `DEFAULT_RESTART_COST_SECONDS`."""
    resize_restarts: bool = False
    """Whether a change of CPU, memory or storage alone costs a restart too."""
    release_seconds_per_gpu: float = 0.0
    """How long GPUs stay unusable after their job stopped, for each GPU that it held."""
    measure: tuple[int, int] | None = None
    """First and last job id that count, both included; the run ends when they are done."""
    rules: Rules = field(default=EXACT)
    knowledge: str = "oracle"
    """What schedulers know of durations: `oracle`, `noisy:SIGMA`, `limit` (the users' time limits) or `none`."""
    end_at_limit: bool = False
    """Whether a job is ended once it has had an allocation for as long as its time limit; else limits are only what
    schedulers go by."""
    failures: Failures | None = None
    network: str = AUTO
    """`physical` or `astra`: how the links between GPUs slow jobs down; `none`: not at all; `auto`: physical where
    the cluster has several racks."""
    congestion: float = 0.0
    """Fraction that other traffic takes of every link above the machines."""
    contention: bool = False
    """Whether jobs on the same uplinks slow each other down."""
    checkpoint_seconds: float = 3600.0
    """Productive time between checkpoints, to which a job falls back when its node fails."""
    certify: bool = False
    """Whether every decision is set beside the best possible one."""
    skip_impossible: bool = False
    """Leave jobs out that no empty cluster could hold, instead of refusing the trace."""
    seed: int = 0
    records: bool = True
    """Whether the record has all of its columns; else only those from which the figures follow."""

    @property
    def network_flavour(self) -> str:
        """Of the network model: the rules', where they have one."""
        return self.rules.network or self.network

    def __post_init__(self) -> None:
        if self.round_seconds is None:
            object.__setattr__(self, "round_seconds", self.rules.round_seconds)
        if self.restart_cost_seconds is None:
            of_rules = self.rules.restart_cost_seconds
            cost = DEFAULT_RESTART_COST_SECONDS if of_rules is None else of_rules
            object.__setattr__(self, "restart_cost_seconds", cost)
        problems = list(self._problems())
        if problems:
            raise InputError(*problems)

    def _problems(self) -> Iterator[Problem]:
        for flag, value, allowed, what in self._checks():
            if not allowed:
                yield Problem(flag, what, found=value)
        yield from self._against_the_rules()
        if self.measure and self.measure[0] > self.measure[1]:
            yield Problem("--measure", "FIRST:LAST needs FIRST <= LAST", found=self.measure)

    def _checks(self) -> Iterator[tuple[str, object, bool, str]]:
        """For each setting its flag, its value, whether that is allowed, and what is."""
        positive = "allowed: a number of seconds above 0"
        not_negative = "allowed: a number of seconds from 0 on"
        rounds, cost = self.round_seconds, self.restart_cost_seconds
        yield "--round", rounds, rounds is None or 0 < rounds < inf, positive
        yield "--restart-cost", cost, cost is None or 0 <= cost < inf, not_negative
        release = self.release_seconds_per_gpu
        yield "--release-seconds-per-gpu", release, 0 <= release < inf, not_negative
        yield "--checkpoint", self.checkpoint_seconds, self.checkpoint_seconds > 0, positive
        if self.failures:
            for seconds in (self.failures.mean_seconds_between, self.failures.repair_seconds):
                yield "--failures", seconds, 0 < seconds < inf, positive
        origin = self.round_origin
        if isinstance(origin, str):
            what = f"allowed: '{FIRST_ARRIVAL}' or a number of seconds"
            yield "--round-origin", origin, origin == FIRST_ARRIVAL, what
        else:
            yield "--round-origin", origin, isfinite(origin), not_negative
        what = "there are no rounds to begin; give --round SECONDS, or leave it out"
        yield "--round-origin", origin, rounds is not None or origin == 0, what
        networks = (AUTO, NONE, *FLAVOURS)
        what = with_hint(f"allowed: {AUTO}, {NONE}, {' or '.join(FLAVOURS)}", _hint(self.network, networks))
        yield "--network", self.network, self.network in networks, what
        what = "allowed: a fraction from 0 to below 1"
        yield "--congestion", self.congestion, 0 <= self.congestion < 1, what
        what = "allowed: oracle, limit, none or noisy:SIGMA with a SIGMA from 0 on, for example noisy:0.5"
        what = with_hint(what, _hint(self.knowledge.partition(":")[0], ("oracle", "limit", "none", "noisy")))
        yield "--knowledge", self.knowledge, self.noise is not None, what

    def _against_the_rules(self) -> list[Problem]:
        """The options that the rules cannot honour."""
        rules = self.rules
        problems = []
        if rules.network and self.network not in (AUTO, rules.network):
            what = f"--rules {rules.name} counts links as {rules.network}; leave it out"
            problems.append(Problem("--network", what, found=self.network))
        what = f"--rules {rules.name} does not have it; leave it out"
        if rules.work is not None:
            problems += [
                Problem(flag, what, found=value)
                for flag, value in (("--contention", self.contention), ("--failures", self.failures))
                if value
            ]
        if self.end_at_limit and (rules.work is not None or rules.blocks is not None):
            problems.append(Problem("--end-at-limit", what))
        if rules.offers:
            problems += [
                Problem(flag, what, found=value)
                for flag, value in (
                    ("--round", self.round_seconds),
                    ("--contention", self.contention),
                    ("--failures", self.failures),
                    ("--release-seconds-per-gpu", self.release_seconds_per_gpu),
                )
                if value
            ]
        return problems

    @property
    def noise(self) -> float | None:
        """Standard deviation of the logarithm of believed durations; NaN: nothing is known; None: not understood."""
        if self.knowledge in ("oracle", LIMIT):
            return 0.0
        if self.knowledge == "none":
            return float("nan")
        kind, _, sigma = self.knowledge.partition(":")
        try:
            value = float(sigma)
        except ValueError:
            return None
        return value if kind == "noisy" and 0 <= value < inf else None


def _hint(word: str, known: Sequence[str]) -> str:
    """A question that names the known word that an unknown one is close to."""
    return did_you_mean(word, known) if word not in known else ""
