"""`sacct --json`: one object a job, its steps inside it.

Since 23.02 a state is a list of words; since 23.11 some numbers are objects that say whether they are set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from muster.problems import InputError, Problem
from muster.units import GB_PER_MIB
from muster.workload.traces.cleaning import NOTHING, Reading
from muster.workload.traces.columns import LARGEST_SECONDS, LINE
from muster.workload.traces.content import Content, Document
from muster.workload.traces.slurm_states import ALLOWED, full_state

_SCHEMA = {
    "job_id": pl.String,
    "submit_seconds": pl.Float64,
    "started": pl.Boolean,
    "start_seconds": pl.Float64,
    "end_seconds": pl.Float64,
    "time_limit_seconds": pl.Float64,
    "nodes": pl.Float64,
    "priority": pl.Float64,
    "requeues": pl.Float64,
    "partition": pl.String,
    "qos": pl.String,
    "exit_code": pl.String,
    "node_list": pl.String,
    "duration_seconds": pl.Float64,
    "status": pl.String,
    "tenant": pl.String,
    "user": pl.String,
    "gpus": pl.Float64,
    "gpu_type": pl.String,
    "cpus": pl.Float64,
    "memory_gb": pl.Float64,
    LINE: pl.Int64,
}


_KINDS = ("requested", "allocated")
_AMOUNTS = "allowed: a list of resources, each with type, name and count, a number"


def recognise(content: Content) -> bool:
    """An object with a list of jobs that have times and resources."""
    if not isinstance(content, Document) or not isinstance(content.value, Mapping):
        return False
    jobs = content.value.get("jobs")
    return isinstance(jobs, list) and all(isinstance(job, Mapping) and "job_id" in job for job in jobs[:1])


def read(content: Content) -> Reading:
    """One row a job; GPUs, CPUs and memory from what was requested, else allocated."""
    assert isinstance(content, Document)
    assert isinstance(content.value, Mapping)
    jobs = content.value["jobs"]
    rows: list[dict[str, object]] = []
    problems: list[Problem] = []
    for number, job in enumerate(jobs):
        row = _row(job) if isinstance(job, Mapping) else None
        column = f"jobs[{number}]"
        if row is None:
            what = "allowed: a job with job_id and time.submission"
            problems.append(Problem(content.where, what, column=column))
            continue
        if row["status"] is None:
            found = job["state"]["current"]
            problems.append(Problem(content.where, ALLOWED, column=f"{column}.state.current", found=found))
        problems += [
            Problem(content.where, _AMOUNTS, column=f"{column}.tres.{kind}", found=found)
            for kind, found in _unreadable(job)
        ]
        rows.append({**row, LINE: number + 1})
    if problems:
        raise InputError(*problems)
    return Reading(pl.DataFrame(rows, schema=_SCHEMA))


def _row(job: Mapping[str, object]) -> dict[str, object] | None:
    """One job's columns; None where it has no id or no submission time."""
    times = _object(job.get("time"))
    submit = _number(times.get("submission"))
    job_id = _job_id(job)
    if submit is None or not job_id:
        return None
    start = _number(times.get("start"))
    end = _number(times.get("end"))
    elapsed = _number(times.get("elapsed"))
    if elapsed is None and start and end:
        elapsed = end - start
    asked = _resources(job)
    return {
        "job_id": job_id,
        "submit_seconds": submit,
        # 0 stands for a job that has not started.
        "started": bool(start),
        "start_seconds": start or None,
        "end_seconds": end or None,
        "time_limit_seconds": (_number(times.get("limit")) or 0) * 60 or None,  # in minutes
        "nodes": _number(job.get("allocation_nodes")) or None,
        "priority": _number(job.get("priority")) or 0.0,
        "requeues": _number(job.get("restart_cnt")) or 0.0,
        "partition": _text(job.get("partition")),
        "qos": _text(job.get("qos")),
        "exit_code": _exit_code(job),
        "node_list": _text(job.get("nodes")),
        "duration_seconds": elapsed,
        "status": _state(job),
        "tenant": _text(job.get("account")) or _text(_object(job.get("association")).get("account")),
        "user": _text(job.get("user")) or _text(_object(job.get("association")).get("user")),
        **asked,
    }


def _exit_code(job: Mapping[str, object]) -> str:
    """As `sacct` prints it: exit status and signal, 1:0."""
    said = _object(job.get("exit_code"))
    signal = _object(said.get("signal"))
    status = _number(said.get("return_code"))
    number = _number(signal.get("id", signal.get("signal_id")))
    return "" if status is None and number is None else f"{int(status or 0)}:{int(number or 0)}"


def _job_id(job: Mapping[str, object]) -> str:
    """As `sacct` prints it: 17, 12_3 for a task of an array, 12+1 for a part of a heterogeneous job."""
    for kind, job_key, part_key, sign in (
        ("array", "job_id", "task_id", "_"),
        ("het", "job_id", "job_offset", "+"),
    ):
        group = _object(job.get(kind))
        whole, part = _number(group.get(job_key)), _number(group.get(part_key))
        if whole and part is not None:
            return f"{int(whole)}{sign}{int(part)}"
    number = _number(job.get("job_id"))
    tasks = _text(_object(job.get("array")).get("task")).strip("[]")
    if number is not None and tasks:  # Of an array that waits.
        return f"{int(number)}_[{tasks}]"
    return _text(job.get("job_id")) if number is None else str(int(number))


def _state(job: Mapping[str, object]) -> str | None:
    """The state's first word: a later one is a flag such as REQUEUED. None where it is no state."""
    state = _object(job.get("state")).get("current")
    if isinstance(state, list):
        state = state[0] if state else None
    return full_state(_text(state))


def _unreadable(job: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Which amounts of a job cannot be read, with what is there; nothing is an amount that is not set."""
    for kind, entries in _object(job.get("tres")).items():
        if kind not in _KINDS or entries is None:
            continue
        if not isinstance(entries, list):
            yield kind, entries
            continue
        for entry in entries:
            count = _object(entry).get("count")
            if not isinstance(entry, Mapping) or not (
                count is None or isinstance(count, int | float | Mapping)
            ):
                yield kind, entry


def _resources(job: Mapping[str, object]) -> dict[str, object]:
    tres = _object(job.get("tres"))
    found: dict[str, object] = {"gpus": None, "gpu_type": "", "cpus": None, "memory_gb": None}
    for kind in _KINDS:
        entries = tres.get(kind)
        counted = _counted([_object(entry) for entry in entries] if isinstance(entries, list) else [])
        if found["gpus"]:  # A job that asks for GPUs of any type got some type, and may run on another one.
            counted["gpu_type"] = ""
        for name, value in counted.items():
            found[name] = found[name] or value
    return found


def _counted(entries: list[Mapping[str, object]]) -> dict[str, object]:
    """The amounts of one list of trackable resources."""
    amounts: dict[str, float] = {}
    for entry in entries:
        name = ":".join(filter(None, (_text(entry.get("type")), _text(entry.get("name")))))
        amounts[name] = amounts.get(name, 0) + (_number(entry.get("count")) or 0)
    typed = {
        name.removeprefix("gres:gpu:"): count
        for name, count in amounts.items()
        if name.startswith("gres:gpu:")
    }
    memory = amounts.get("mem")
    return {
        # The count without a type includes those with one.
        "gpus": amounts.get("gres:gpu", sum(typed.values()) if typed else None),
        "gpu_type": next(iter(typed)) if len(typed) == 1 else "",
        "cpus": amounts.get("cpu"),
        "memory_gb": None if memory is None else memory * GB_PER_MIB,
    }


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    """A number, whichever way this version writes it; None where it is not set or not finite."""
    if isinstance(value, Mapping):
        usable = value.get("set", True) and not value.get("infinite", False)
        return _number(value.get("number")) if usable else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST_SECONDS else None


def _text(value: object) -> str:
    text = str(value).strip() if isinstance(value, str | int) else ""
    return "" if text.lower() in NOTHING else text
