"""Why a job holds nothing, as data: a code and two numbers, put into words here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from muster.cluster.resources import FURTHER
from muster.formatting import duration, enumerated, gpus, is_or_are, thousandths

NEEDS = "needs"
"""The number of GPUs that a job waits for: those it asks for, or its fewest under a scheduler that gives fewer."""
_SHOWN = {NEEDS: gpus, "seconds": duration}
"""How a number of this name is shown; others as they are."""
_FREE = "free"
"""The number that is the subject of its sentence."""

_FURTHER = [one.name for one in FURTHER]
_BESIDE_GPUS = enumerated(["CPUs", "memory", *_FURTHER])
"""What a job may hold with its GPUs: with a further resource installed, that may be what is short."""


@dataclass(frozen=True)
class Reason:
    """One kind of reason. `a` and `b` are the names of its two numbers, empty where it has none."""

    name: str
    sentence: str
    a: str = ""
    b: str = ""
    if_enough: str = ""
    """The sentence where `b` is no less than `a`."""

    def parameters(self, a: float, b: float) -> dict[str, float]:
        """The reason's numbers by name, but for those that JSON has no word for: an infinite one bounds nothing."""
        return {name: value for name, value in ((self.a, a), (self.b, b)) if name and isfinite(value)}

    def to_json(self, a: float, b: float) -> str:
        """The reason's numbers as the record keeps them: the text of `json.dumps`, which is slow for so many."""
        first = f'"{self.a}": {float(a)!r}' if self.a and isfinite(a) else ""
        second = f'"{self.b}": {float(b)!r}' if self.b and isfinite(b) else ""
        return f"{{{first}, {second}}}" if first and second else f"{{{first}{second}}}"

    def words(self, a: float, b: float, *, at_least: bool = False) -> str:
        """The reason as a sentence; `at_least`: the GPUs that the job needs are its least, and it may have more."""
        numbers = {name: _words(name, value) for name, value in ((self.a, a), (self.b, b))}
        if at_least and NEEDS in numbers:
            numbers[NEEDS] = f"at least {numbers[NEEDS]}"
        sentence = self.if_enough if self.if_enough and b >= a > 0 else self.sentence
        return sentence.format(**numbers)


def _words(name: str, value: float) -> str:
    """A number as its sentence has it."""
    if name in _SHOWN:
        return _SHOWN[name](value)
    return f"{thousandths(value)} {is_or_are(value)}" if name == _FREE else thousandths(value)


_KINDS = (
    Reason("placed", "it holds an allocation"),
    Reason("not_considered", "it arrived and the next decision has not come yet"),
    Reason(
        "no_gpus",
        "it needs {needs} and {free} free",
        "needs",
        "free",
        "it needs {needs}; {free} free, less what jobs before it take or have reserved",
    ),
    Reason(
        "outranked",
        "it needs {needs} and the jobs served before it leave {left}",
        "needs",
        "left",
        "it needs {needs}; the jobs served before it leave {left}, and others were worth more to the goal",
    ),
    Reason(
        "no_place",
        f"it needs {{needs}} together with their {_BESIDE_GPUS}; {{free}} free, but not where it can use them",
        "needs",
        "free",
    ),
    Reason("behind_head", "the job at the head of the line waits, and no job may pass it"),
    Reason(
        "over_limit", "its tenant may hold at most {limit} at once, and it needs {needs}", "limit", "needs"
    ),
    Reason(
        "not_selected",
        f"others hold the {_BESIDE_GPUS} beside free GPUs, or were worth more to the goal this time",
    ),
    Reason("waits_its_turn", "it shares GPUs in turns and another's turn is on"),
    Reason(
        "delay_timer",
        "it waits for a machine-level offer: its timer is at {waited} of {limit} leases",
        "waited",
        "limit",
    ),
    Reason("node_failed", "its machine failed and the next decision has not come yet"),
    Reason(
        "rack_timer",
        "it waits for a rack-level offer: its timer is at {waited} of {limit} leases",
        "waited",
        "limit",
    ),
    Reason("gpu_not_parted", "it asks for a share of a GPU, and this scheduler gives whole ones only"),
    Reason("fits_nowhere", "it would not fit if the whole cluster were free"),
    Reason(
        "protected",
        "it needs {needs}; running jobs that it outranks may be interrupted in {seconds} at the earliest",
        "needs",
        "seconds",
    ),
    Reason(
        "no_cpus",
        "it needs {cpus} CPU cores and {memory_gb} GB on one machine, and no machine has "
        + " and ".join(["both", *_FURTHER])
        + " free",
        "cpus",
        "memory_gb",
    ),
    Reason(
        "reserved",
        "backfill plans its start in {seconds}; jobs that run or have reserved before it hold what it needs",
        "seconds",
    ),
    Reason(
        "requeued",
        "it made room for another job and is queued again; {seconds} must pass before it may start",
        "seconds",
    ),
    Reason("only_with_gpus", "it asks for no GPU, and this scheduler serves only jobs with GPUs"),
)

REASONS = {kind.name: code for code, kind in enumerate(_KINDS)}
"""Code by name."""

PLACED = REASONS["placed"]
"""0: a job with any other code holds nothing."""
NOT_CONSIDERED = REASONS["not_considered"]
NO_GPUS = REASONS["no_gpus"]
OUTRANKED = REASONS["outranked"]
NO_PLACE = REASONS["no_place"]
BEHIND_HEAD = REASONS["behind_head"]
OVER_LIMIT = REASONS["over_limit"]
NOT_SELECTED = REASONS["not_selected"]
WAITS_ITS_TURN = REASONS["waits_its_turn"]
DELAY_TIMER = REASONS["delay_timer"]
NODE_FAILED = REASONS["node_failed"]
GPU_NOT_PARTED = REASONS["gpu_not_parted"]
RACK_TIMER = REASONS["rack_timer"]
PROTECTED = REASONS["protected"]
FITS_NOWHERE = REASONS["fits_nowhere"]
"""Of a job that was taken when the cluster was another one; no scheduler sees it."""
ONLY_WITH_GPUS = REASONS["only_with_gpus"]
"""Of one that was taken under another scheduler, likewise."""
RESERVED = REASONS["reserved"]
REQUEUED = REASONS["requeued"]
NO_CPUS = REASONS["no_cpus"]
"""Of a job without GPUs."""


def reason(code: int) -> Reason:
    """The kind of reason behind a code."""
    return _KINDS[code]
