"""The settings of the preset `slurm` from a site's `scontrol show config` or slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.problems import InputError, Problem
from muster.slurm_not_simulated import not_simulated
from muster.slurm_partitions import PartitionLimits, limits_of
from muster.slurm_preemption import qos_of, read_preemption

_PARAMETERS: Mapping[str, tuple[str, float]] = {
    "bf_interval": ("bf_interval", 1),
    "bf_resolution": ("bf_resolution", 1),
    "bf_window": ("bf_window_seconds", 60),
    "bf_max_job_test": ("bf_max_job_test", 1),
    "default_queue_depth": ("default_queue_depth", 1),
    "preempt_reorder_count": ("preempt_reorder_count", 1),
}
"""Of SchedulerParameters: the setting, and what a unit of it is."""
_SWITCHES = ("preempt_strict_order", "preempt_youngest_first")
"""Of SchedulerParameters: those without a value."""
_WITHOUT_EFFECT = (
    "bf_continue",
    "batch_sched_delay",
    "sched_interval",
    "sched_min_interval",
    "bf_yield_interval",
)
"""Parameters that change no start here."""
_WEIGHTS = {
    "PriorityWeightAge": "weight_age",
    "PriorityWeightFairShare": "weight_fair_share",
    "PriorityWeightJobSize": "weight_job_size",
    "PriorityWeightPartition": "weight_partition",
    "PriorityWeightQOS": "weight_qos",
}
_TIMES = {
    "PriorityMaxAge": "max_age_seconds",
    "PriorityDecayHalfLife": "half_life_seconds",
    "PriorityCalcPeriod": "calc_period_seconds",
}
_TRES = {"gres/gpu": "gpu", "cpu": "cpu", "mem": "mem"}
_TIME = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+)(?::(\d+))?$")
_PARTITION_SHOWN = re.compile(r"^PartitionName=\S+[ \t]*\n(?:[ \t]+\S.*\n?)+", re.MULTILINE)
"""A partition as `scontrol show partition` prints it: on several lines."""
_NOT_SIMULATED = {
    "TopologyPlugin": ("", "topology/none", "topology/default", "topology/flat", "(null)"),
    "SelectType": ("", "select/cons_tres"),
    "SchedulerType": ("", "sched/backfill"),
}
"""Settings with the values that the preset stands for."""


@dataclass(frozen=True)
class SlurmConfig:
    """What a site's configuration says."""

    settings: Mapping[str, str]
    """Of the preset `slurm`, as `--set` takes them."""
    notes: tuple[str, ...]
    """What the preset does not have."""
    partitions: Mapping[str, PartitionLimits] = field(default_factory=dict)
    """By name, which jobs each takes: no simulation goes by it."""


def read_slurm_config(path: Path) -> SlurmConfig:
    """The settings of a file that `scontrol show config` wrote, or of a slurm.conf; InputError if it is neither."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}")) from error
    values, partitions = _values(text)
    if not {"schedulertype", "slurmctldhost", "clustername", "prioritytype"} & set(values):
        what = "this is neither `scontrol show config` nor a slurm.conf: no ClusterName, SchedulerType or PriorityType"
        raise InputError(Problem(str(path), what))
    settings, notes = _scheduling(path, values)
    settings |= _priority(path, values)
    settings |= _of_partitions(partitions)
    qos = qos_of(text)
    preemption, more = read_preemption(values, partitions, qos, _seconds_in(path))
    notes += [*more, *not_simulated(text, values, partitions, qos)]
    return SlurmConfig(settings | preemption, tuple(notes), limits_of(partitions, _seconds_in(path)))


def _values(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The settings of a file by their names in lower case, and those of each partition with its defaults."""
    values: dict[str, str] = {}
    partitions: list[dict[str, str]] = []
    default: dict[str, str] = {}
    for found in _lines(text):
        if "partitionname" not in found:
            values.update(found)
        elif found["partitionname"].lower() == "default":
            default |= found
        else:
            partitions.append({**default, **found})
    return values, partitions


def _lines(text: str) -> Iterator[dict[str, str]]:
    """Each line's settings, by their names in lower case."""
    text = _PARTITION_SHOWN.sub(lambda shown: " ".join(shown[0].split()) + "\n", text)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if " = " in line or re.match(r"^\S+\s+=(\s|$)", line):
            name, _, value = line.partition("=")
            yield {name.strip().lower(): value.strip()}
        elif line.lower().startswith(("partitionname=", "nodename=")):
            pairs = re.findall(r'(\S+?)=("[^"]*"|\S*)', line)
            if line.lower().startswith("partitionname="):
                yield {name.lower(): value.strip('"') for name, value in pairs}
        elif "=" in line:
            name, _, value = line.partition("=")
            yield {name.strip().lower(): value.strip().strip('"')}


def _scheduling(path: Path, values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Intervals, depths and windows; and what is not simulated."""
    settings: dict[str, str] = {}
    unknown = []
    for word in values.get("schedulerparameters", "").split(","):
        name, _, value = word.strip().partition("=")
        if name in _PARAMETERS and value:
            setting, unit = _PARAMETERS[name]
            if not re.match(r"^\d+$", value):
                what = f"allowed: a whole number, as {name}=30"
                raise InputError(Problem(str(path), what, column="SchedulerParameters", found=word.strip()))
            settings[setting] = f"{int(value) * unit:g}"
        elif name in _SWITCHES:
            settings[name] = "true"
        elif name and name != "(null)" and name not in _WITHOUT_EFFECT:
            unknown.append(name)
    if wait := re.match(r"^(\d+)", values.get("killwait", "")):
        settings["kill_wait"] = wait.group(1)
    notes = [f"SchedulerParameters that are not simulated: {', '.join(unknown)}"] if unknown else []
    for name, allowed in _NOT_SIMULATED.items():
        if values.get(name.lower(), "").lower() not in allowed:
            notes.append(f"{name}={values[name.lower()]} is not simulated; the preset has {allowed[1]}")
    return settings, notes


def _priority(path: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Weights, times and decay; none under priority/basic."""
    if values.get("prioritytype", "").lower() != "priority/multifactor":
        return {}
    settings: dict[str, str] = {}
    for name, setting in _WEIGHTS.items():
        if value := values.get(name.lower()):
            settings[setting] = value
    for name, setting in _TIMES.items():
        if value := values.get(name.lower()):
            settings[setting] = f"{_seconds(path, name, value)}"
    if favor := values.get("priorityfavorsmall"):
        settings["favor_small"] = "true" if favor.lower() in ("yes", "1", "true") else "false"
    if weights := _tres(values.get("priorityweighttres", "")):
        settings["weight_tres"] = weights
    return settings


def _of_partitions(partitions: list[dict[str, str]]) -> dict[str, str]:
    """Priorities of partitions, and what usage counts where all of them say the same."""
    settings: dict[str, str] = {}
    factors = [
        f"{one['partitionname']}:{one['priorityjobfactor']}"
        for one in partitions
        if "priorityjobfactor" in one
    ]
    if factors:
        settings["partition_priority"] = ",".join(factors)
    billing = {_tres(one.get("tresbillingweights", "")) for one in partitions}
    if len(billing) == 1 and (only := billing.pop()):
        settings["billing"] = only
    return settings


def _tres(text: str) -> str:
    """Weights as settings take them: `CPU=1000,GRES/gpu=3000` is `cpu:1000,gpu:3000`; others are left out."""
    found = []
    for word in text.split(","):
        name, _, value = word.strip().partition("=")
        number = re.match(r"^[\d.]+", value)
        if name.lower() in _TRES and number:
            found.append(f"{_TRES[name.lower()]}:{number.group(0)}")
    return ",".join(found)


def _seconds_in(path: Path) -> Callable[[str, str], int]:
    """How to read a time of this file by the setting's name and its text."""
    return lambda name, text: _seconds(path, name, text)


def _seconds(path: Path, name: str, text: str) -> int:
    """Seconds of `days-hours:minutes:seconds`, of which minutes stand alone and hours need the days before them."""
    match = _TIME.match(text.strip())
    if match is None:
        raise InputError(Problem(str(path), "allowed: a time such as 7-00:00:00", column=name, found=text))
    days, first, second, third = match.groups()
    if third is not None:
        hours, minutes, seconds = int(first or 0), int(second), int(third)
    elif first is not None:
        hours, minutes, seconds = (int(first), int(second), 0) if days else (0, int(first), int(second))
    else:
        hours, minutes, seconds = (int(second), 0, 0) if days else (0, int(second), 0)
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
