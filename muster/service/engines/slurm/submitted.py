"""Jobs that their owners submitted to Slurm itself and marked as Muster's: `sbatch --hold --comment=muster:steps=400`.

A job of its own that is held, has no dependency and whose comment begins with the mark is taken. Muster's own mark then
replaces the comment, so that the job is known whatever its number and its time of submission become.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from muster.files import write_aside
from muster.service.engines.interface import SubmittedJob, UntakenJob
from muster.service.engines.slurm.status import EXCLUDED, SlurmJob, mib
from muster.service.request import JobRequest
from muster.units import GB_PER_MIB

MARK = "muster:"
"""Begins the comment of every job that is Muster's."""
OWN = re.compile(r"muster:(?P<whose>[^:,=]+):(?P<job>\d+)")
"""Comment of a job that a Muster has submitted or taken."""
_OPTIONS = frozenset(
    {"steps", "model", "priority", "min_gpus", "max_gpus", "grace_seconds", "checkpoint_seconds", "tenant"}
)
_GPUS = re.compile(r"(?:gres[:/])?gpu(?:[:=](?P<count>\d+)|:(?P<type>[^:=,]+)(?:[:=](?P<of_type>\d+))?)?")
"""As gres:gpu:2, gres/gpu:a100:2 or, by tasks from 23.02 on, gres/gpu:1080ti=2."""
_CPUS_PER_GPU = re.compile(r"(?:gres[:/])?gpu[:=](?P<count>\d+)")
_FEATURES = re.compile(r"[\w.:-]+(?:\|[\w.:-]+)*")
"""What a job requires of nodes: a feature, or any of several. Slurm also knows `a&b`, counts and groups."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_NAME = 200
"""Of a job of Muster; names in Slurm may be longer, and hold any character."""

log = structlog.get_logger()


class _CannotTake(ValueError):
    """What a job says in Slurm that Muster cannot go by, and the setting by which its owner changes that."""

    def __init__(self, what: str, setting: str) -> None:
        super().__init__(what)
        self.setting = setting


@dataclass(frozen=True)
class Adopted:
    """A job that is on Muster's record."""

    key: str
    slurm_job: int
    job: int
    user: str
    request: dict[str, Any]
    last_run: int | None = None
    """Slurm's count of restarts in the last run that Muster has started; -1: it has started none; None: not known."""

    @property
    def comment(self) -> str:
        """What the job says in Slurm from its adoption on."""
        return own_comment(self.key, self.job)

    def submitted(self) -> SubmittedJob:
        """Return it as the controller sees it."""
        return SubmittedJob(self.key, self.user, JobRequest.model_validate(self.request), self.job)


class AdoptedJobs:
    """The jobs that were taken and are not closed yet: a file for each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._jobs = {
            one.key: one
            for one in (Adopted(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json")))
        }

    def __iter__(self) -> Iterator[Adopted]:
        return iter(self._jobs.values())

    def get(self, key: str) -> Adopted | None:
        """Return a job, if it was taken."""
        return self._jobs.get(key)

    def keep(self, job: Adopted) -> None:
        """Write a job; it is on disk when this returns."""
        with write_aside(self._path(job.key)) as aside:
            aside.write_text(json.dumps(asdict(job)))
        self._jobs[job.key] = job

    def drop(self, key: str) -> None:
        """Forget a job."""
        self._path(key).unlink(missing_ok=True)
        self._jobs.pop(key, None)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


class NewJobs:
    """Recognises jobs that are to be taken; warns about each that cannot be, once for each reason."""

    def __init__(self) -> None:
        self._refused: dict[int, UntakenJob] = {}
        """By number."""

    @staticmethod
    def is_new(row: SlurmJob) -> bool:
        """Whether a job is marked, held and not taken yet."""
        return row.comment.startswith(MARK) and not OWN.fullmatch(row.comment) and row.held

    def find(self, row: SlurmJob) -> SubmittedJob | None:
        """Return the job if it is marked, held and a job of its own, and if its time to begin (`--begin`) has come."""
        later = row.values["Dependency"] or row.started > time.time()
        if not (self.is_new(row) and row.is_whole and not later):
            self._refused.pop(row.number, None)
            return None
        user = row.values["UserName"]
        try:
            key, shown = f"{row.number}@{row.submitted:.0f}", f"job {row.number} of Slurm"
            found = SubmittedJob(key, user, request_of(row), shown=shown)
        except ValueError as error:
            setting = error.setting if isinstance(error, _CannotTake) else f"Comment={MARK}..."
            hint = f"Hint: scontrol update jobid={row.number} {setting}"
            refused = UntakenJob(f"job {row.number} of Slurm", user, f"{_short(error)}. {hint}")
            if self._refused.get(row.number) != refused:
                self._refused[row.number] = refused
                log.warning("a job of Slurm cannot be taken", slurm_job=row.number, error=_short(error))
            return None
        self._refused.pop(row.number, None)
        return found

    def untaken(self, numbers: Collection[int]) -> list[UntakenJob]:
        """Return the jobs that could not be taken, of those that Slurm still has."""
        self._refused = {number: one for number, one in self._refused.items() if number in numbers}
        return list(self._refused.values())


def own_comment(whose: str, job: int) -> str:
    """Return what a job of Muster says in Slurm: whose it is, and which."""
    return f"{MARK}{whose}:{job}"


def request_of(row: SlurmJob) -> JobRequest:
    """Return what a job of Slurm requests. ValueError if its comment has an unknown option or a wrong value.

    So too if it requests what Muster's own amounts and nodes would replace, or features that no constraint stands for.
    """
    values = row.values
    _check_kept(values)
    nodes, tasks = _number(values["NumNodes"]), max(_number(values["NumTasks"]), 1)
    gpus, gpu_type = _gpus(values, nodes, tasks)
    if nodes > 1 and not gpus:
        what = f"nodes: found {nodes} for a job without GPUs; allowed: one"
        raise _CannotTake(what, "NumNodes=1")
    cpus_per_task = _number(values["cpus-per-task"])
    # One for a task is what Slurm gives unasked, unless there are more tasks than GPUs.
    cpus = tasks * cpus_per_task if cpus_per_task > 1 or tasks > gpus else None
    if stated := _CPUS_PER_GPU.fullmatch(values["cpus-per-tres"]):
        cpus = gpus * int(stated["count"])
    memory_gb = _memory_mib(values, nodes) * GB_PER_MIB
    fields: dict[str, Any] = {
        "name": _CONTROL.sub("?", values["Name"])[:_LONGEST_NAME] or f"slurm-{row.number}",
        "command": [values["Command"] or "sbatch"],
        "directory": values["WorkDir"] or "/",
        "gpus": gpus,
        "ranks": "per-gpu" if 1 < gpus == tasks else "one",
        "cpus": cpus,
        "memory_gb": memory_gb or (None if gpus else 1.0),
        "constraint": _constraint(values["Feature"], gpu_type),
        "preemptible": None if values["Requeue"] == "1" else False,
    }
    request = JobRequest.model_validate(fields | _options(row.comment))
    if request.changes_size:
        _check_sizes(values, tasks > nodes)
    return request


def _check_kept(values: Mapping[str, str]) -> None:
    """_CannotTake if a job requests what it would lose when Muster gives it amounts and nodes."""
    if values["HetJobID"]:
        what = f"it is a part of the heterogeneous job {values['HetJobID']}"
        raise _CannotTake(f"{what}; allowed: a job with the same amounts on each of its nodes", "Comment=")
    if values["ReqNodes"]:
        what = f"nodelist: found {values['ReqNodes']}; allowed: no nodes, as Muster chooses them"
        raise _CannotTake(what, "ReqNodeList=")
    if values.get(EXCLUDED):
        what = f"exclude: found {values[EXCLUDED]}; allowed: no nodes, as Muster chooses them"
        raise _CannotTake(what, "ExcNodeList=")
    if values["tres-per-socket"]:
        what = f"gpus-per-socket: found {values['tres-per-socket']}"
        raise _CannotTake(f"{what}; allowed: --gpus, --gpus-per-node or --gpus-per-task", "Comment=")
    for column in ("tres-per-job", "tres-per-node", "tres-per-task"):
        items = [item for item in values[column].split(",") if item and not item.startswith(("cpu", "mem"))]
        others = [item for item in items if not _GPUS.fullmatch(item)]
        if others:
            what = f"gres: found {','.join(others)}; allowed: whole GPUs"
            raise _CannotTake(what, "TresPerNode=gres:gpu:...")
        if len(items) > 1:
            what = f"gres: found {','.join(items)}; allowed: GPUs of one type"
            raise _CannotTake(what, "TresPerNode=gres:gpu:...")


def _check_sizes(values: Mapping[str, str], several_tasks: bool) -> None:
    """_CannotTake if a job that may change its size says to srun how many GPUs or tasks it has.

    sbatch leaves that in the job's environment, where Muster cannot change it: on fewer GPUs srun fails, on more it
    leaves some of them idle.
    """
    stated = {"gpus": values["tres-per-job"], "gpus-per-task": values["tres-per-task"]}
    stated["ntasks"] = values["NumTasks"] if several_tasks else ""
    for option, value in stated.items():
        if value:
            what = f"min_gpus and max_gpus beside {option}: found {value}"
            raise _CannotTake(f"{what}; allowed: --gres=gpu:N and a task on each node", f"Comment={MARK}")


def _memory_mib(values: Mapping[str, str], nodes: int) -> float:
    """Return the memory that a job requests in all; 0 if it states none, which is all of a node."""
    for_each_node = mib(values["MinMemory"])
    if not for_each_node and not values["mem-per-tres"]:
        return 0.0
    # It may be stated for each CPU or GPU: only Slurm's own sum says so.
    in_all = dict(item.partition("=")[::2] for item in values["tres-alloc"].split(","))
    return mib(in_all["mem"]) if "mem" in in_all else for_each_node * nodes


def _constraint(features: str, gpu_type: str) -> str:
    """Return what nodes are to have: a type of GPU, or features, which are the labels of nodes."""
    if not features:
        return f"gpu_type={gpu_type}" if gpu_type else ""
    if gpu_type:
        what = f"constraint: found {features} beside GPUs of type {gpu_type}; allowed: one of the two"
        raise _CannotTake(what, "Features=")
    if not _FEATURES.fullmatch(features):
        what = f"constraint: found {features}; allowed: a feature, or several with a bar between: any of them"
        raise _CannotTake(what, "Features=...")
    return f"label={features}"


def gpu_type_of(row: SlurmJob) -> str | None:
    """Return the type of GPU that a job requests; "" is any. Slurm refuses to change one into the other.

    None: it requests none, though it may have done so before. Then Slurm takes any type of its nodes.
    """
    gpus, gpu_type = _gpus(row.values, 1, 1)
    return gpu_type if gpus else None


def _options(comment: str) -> dict[str, str]:
    items = [item.strip() for item in comment.removeprefix(MARK).split(",") if item.strip()]
    options = dict(item.partition("=")[::2] for item in items)
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueError(f"comment: found {', '.join(unknown)}; allowed: {', '.join(sorted(_OPTIONS))}")
    return options


def _gpus(values: Mapping[str, str], nodes: int, tasks: int) -> tuple[int, str]:
    """Return how many GPUs a job requests in all, and of which type; "" is any."""
    for column, times in (("tres-per-job", 1), ("tres-per-node", nodes), ("tres-per-task", tasks)):
        found = [_GPUS.fullmatch(item) for item in values[column].split(",")]
        for one in found:
            if one is not None:
                return int(one["count"] or one["of_type"] or 1) * times, one["type"] or ""
    return 0, ""


def _number(text: str) -> int:
    """Return the lower end of a number or a range."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def _short(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return str(error)
