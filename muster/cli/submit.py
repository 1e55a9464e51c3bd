"""`muster submit`: a job for the daemon, from flags or from a file."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.flag_groups import takes_flag_groups
from muster.cli.help import RARELY_NEEDED
from muster.problems import ErrorCollector, InputError, Problem

if TYPE_CHECKING:
    from muster.service.client import Client

FINDS_PROGRAMS = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "TMPDIR",
)  # fmt: skip
"""What a job has of the environment in which it was submitted, besides what is named by --env."""

_FLAGS = {
    "memory_gb": "--memory",
    "own_memory_gb": "--own-memory",
    "compute_threads": "--threads",
    "environment": "--env",
    "held": "--hold",
    "resources": "--resource",
    "time_limit_seconds": "--time-limit",
    "deadline_seconds": "--deadline",
}
"""Of fields that are not called as their flags."""
_AUTO = "auto"


@dataclass(frozen=True)
class ResourceFlags:
    """What the job needs of its nodes."""

    gpus: Annotated[
        int, typer.Option(metavar="N", help="Number of GPUs; 0 for a job with CPUs and memory only.")
    ] = 1
    min_gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=RARELY_NEEDED,
            help="Fewest GPUs on which the job can run, for schedulers that choose sizes (default: --gpus).",
            show_default=False,
        ),
    ] = None
    max_gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=RARELY_NEEDED,
            help="Most GPUs that the job can use, for schedulers that choose sizes (default: --gpus).",
            show_default=False,
        ),
    ] = None
    gpu_share: Annotated[
        float, typer.Option(metavar="SHARE", rich_help_panel=RARELY_NEEDED, help="Share of one GPU, as 0.5.")
    ] = 1.0
    ranks: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            rich_help_panel=RARELY_NEEDED,
            help="Processes to start: one (on each node) or per-gpu.",
        ),
    ] = "one"
    cpus: Annotated[
        str,
        typer.Option(metavar="N", help="Fewest CPU cores that the job gets in all, or auto (by its GPUs)."),
    ] = _AUTO
    memory: Annotated[
        str,
        typer.Option(
            metavar="AMOUNT", help="Least memory that the job gets in all, as 64GB, or auto (by its GPUs)."
        ),
    ] = _AUTO
    own_memory: Annotated[
        str,
        typer.Option(
            metavar="AMOUNT",
            rich_help_panel=RARELY_NEEDED,
            help="Part of --memory that is not for cached samples, as 8GB, or auto.",
        ),
    ] = _AUTO
    resource: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AMOUNT",
            rich_help_panel=RARELY_NEEDED,
            help="Amount of a resource that an installed package describes, as power_watts=300; repeatable.",
        ),
    ] = None
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            rich_help_panel=RARELY_NEEDED,
            help="Value of OMP_NUM_THREADS, the same at each start.",
        ),
    ] = 1

    def fields(self, errors: ErrorCollector) -> dict[str, Any]:
        """These flags as fields of a request; `errors` collects the errors."""
        return {
            "gpus": self.gpus,
            "min_gpus": self.min_gpus,
            "max_gpus": self.max_gpus,
            "gpu_share": self.gpu_share,
            "ranks": self.ranks,
            "cpus": errors.of(_number, self.cpus),
            "memory_gb": errors.of(_gb_or_auto, "--memory", self.memory),
            "own_memory_gb": errors.of(_gb_or_auto, "--own-memory", self.own_memory),
            "resources": errors.of(_amounts, self.resource or []),
            "compute_threads": self.threads,
        }


@dataclass(frozen=True)
class SpeedFlags:
    """What is known of the job's length and of its sensitivity to CPU and memory."""

    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Number of steps of the whole job (default: unknown).")
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Model whose sensitivity to CPU and memory the job has (default: unknown)."
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="auto",
            rich_help_panel=RARELY_NEEDED,
            help="Use the model of the same name as the job (default: --model).",
        ),
    ] = None

    def check(self) -> None:
        """Refuses a `--profile` that says nothing or contradicts `--model`."""
        if self.profile is not None and (self.profile != _AUTO or self.model is not None):
            what = "--profile auto goes by the job's name; --model NAME names another"
            raise InputError(
                Problem("--profile", what if self.model else "allowed: auto", found=self.profile)
            )


@dataclass(frozen=True)
class QueueFlags:
    """When the job runs, compared with others."""

    priority: Annotated[
        float, typer.Option(metavar="P", help="Priority, larger first, if the scheduler uses it.")
    ] = 0.0
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Running time after which the job is ended, as 12h (default: no limit)."
        ),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Deadline, as 6h from now or 2026-11-23T18:00, for schedulers that begin with edf (default: none).",
        ),
    ] = None
    tenant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=RARELY_NEEDED,
            help="Tenant whose quota the job counts for (default: none).",
        ),
    ] = None
    held: Annotated[bool, typer.Option("--hold", help="Hold the job until muster release.")] = False

    def fields(self, errors: ErrorCollector) -> dict[str, Any]:
        """These flags as fields of a request; `errors` collects the errors."""
        limit = self.time_limit
        return {
            "time_limit_seconds": None
            if limit is None
            else errors.of(flags.positive_seconds_of, "--time-limit", limit),
            "deadline_seconds": None if self.deadline is None else errors.of(_deadline, self.deadline),
            "priority": self.priority,
            "tenant": self.tenant,
            "held": self.held,
        }


@dataclass(frozen=True)
class RunFlags:
    """How the job's processes run, and how they are stopped."""

    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="Variable for the environment of the job; repeatable."),
    ] = None
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory", "-C", metavar="DIR", help="Working directory of the job (default: this one)."
        ),
    ] = None
    stop_signal: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=RARELY_NEEDED,
            help="Signal on which a job without muster.training saves its work and ends "
            "(default: SIGTERM, no saving).",
        ),
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--no-preemptible",
            rich_help_panel=RARELY_NEEDED,
            help="Allow the job to be stopped for other jobs (default: only if it saves its work then).",
            show_default=False,
        ),
    ] = None
    progress: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            rich_help_panel=RARELY_NEEDED,
            help=r"Expression that finds the step in the output of a job without muster.training, "
            r"as 'step (?P<step>\d+)/' (default: none).",
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """These flags as fields of a request, apart from the environment."""
        return {
            "directory": str((self.directory or Path()).absolute().resolve()),
            "stop_signal": self.stop_signal,
            "preemptible": self.preemptible,
            "progress": self.progress,
        }


@takes_flag_groups(more_help="Show more options: shares, ranks, own memory, signals, interruptions.")
def submit(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND... | FILE.toml", help="Command of the job, or a job file."),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the job (default: the name of the script).")
    ] = None,
    *,
    resources: ResourceFlags,
    speed: SpeedFlags,
    queueing: QueueFlags,
    running: RunFlags,
    as_json: flags.Json = False,
) -> None:
    """Submit a job. It is durable once its number is printed.

    Example: muster submit --name resnet --gpus 2 -- python train.py --epochs 3
    """
    from muster.service.client import Client

    errors = ErrorCollector()
    file = _read_file(words) if words[0].endswith(".toml") else None
    by_flags = {
        **resources.fields(errors),
        **queueing.fields(errors),
        **running.fields(),
        "steps": speed.steps,
        "model": speed.model,
    }
    environment = errors.of(_named, running.env or [])
    errors.of(speed.check)
    errors.settle()
    if file is None:
        request = by_flags | {"name": flags.script_of(words) if name is None else name, "command": words}
    else:
        given = {field: value for field, value in by_flags.items() if _is_given(context, field)}
        request = file.request | given | ({} if name is None else {"name": name})
    request["environment"] = _inherited() | request.get("environment", {}) | environment
    with Client.of_environment() as client:
        if speed.profile is not None:
            request["model"] = _known_model(client, request["name"])
        _post(client, request, lambda problem: _at_its_place(problem, file, context), as_json)


@dataclass(frozen=True)
class _JobFile:
    path: str
    text: str
    request: dict[str, Any]


def _read_file(words: Sequence[str]) -> _JobFile:
    from pydantic import Field

    from muster.checked_toml import parse_toml
    from muster.files import read_text
    from muster.service.request import Folder, JobRequest

    class JobFile(JobRequest):
        """A request that runs where it was submitted unless it says otherwise."""

        directory: Folder = Field(default_factory=lambda: str(Path.cwd()))

    name, *more = words
    if more:
        what = f"allowed: {name} alone; its command stands in it, and options change the rest"
        raise InputError(Problem("FILE.toml", what, found=" ".join(words)))
    text = read_text(Path(name))
    return _JobFile(name, text, parse_toml(text, name, JobFile).model_dump(mode="json"))


def _parameter(field: str) -> str:
    """The name of the flag of a field, as Typer has it."""
    flag = _FLAGS.get(field, f"--{field}").removeprefix("--").replace("-", "_")
    return {"hold": "held"}.get(flag, flag)


def _is_given(context: typer.Context, field: str) -> bool:
    """Whether a field was set by its flag."""
    source = context.get_parameter_source(_parameter(field))
    return source is not None and source.name == "COMMANDLINE"


def _post(
    client: Client, request: Mapping[str, Any], placed: Callable[[Problem], Problem], as_json: bool
) -> None:
    from muster.cli.service_view import interruptions, unsure_if_interrupted
    from muster.formatting import as_json_text
    from muster.service.client import Refusal, Unknown

    look_first = f"look with muster queue --name {shlex.quote(request['name'])} before you submit it again"
    try:
        with unsure_if_interrupted(look_first):
            answer = client.post("/v1/jobs", request)
    except Unknown as lost:
        raise Unknown(f"{lost}: {look_first}") from None
    except Refusal as refusal:
        if not refusal.problems:
            raise
        problems = [placed(problem) for problem in refusal.problems]
        raise Refusal(refusal.http_status, str(InputError(*problems)), problems) from None
    if as_json:
        print(as_json_text(answer), end="")
    else:
        state = "held" if request["held"] else "queued"
        print(f"Job {answer['job_id']} ({request['name']}) is {state}.")
        print(interruptions(request, joined=False))


def _at_its_place(problem: Problem, file: _JobFile | None, context: typer.Context) -> Problem:
    """The daemon's problem with a request at the flag, or the line of the file, that it comes from."""
    from muster.checked_toml import field_problem

    way = tuple((problem.column or "").split("."))
    if file is None or _is_given(context, way[0]):
        flag = "COMMAND" if way[0] == "command" else _FLAGS.get(way[0], f"--{way[0].replace('_', '-')}")
        written = context.params.get(_parameter(way[0]))
        # As 6h, not its 21600.0 seconds; what is too long to show stays out.
        found = problem.found if problem.found is None or not isinstance(written, str) else written
        return Problem(flag if problem.column else "job", problem.what, found=found)
    if problem.column:
        return field_problem(file.text, file.path, way, problem.what, problem.found)
    return Problem(file.path, problem.what, found=problem.found)


def _known_model(client: Client, name: str) -> str | None:
    known = client.get("/v1/models")["models"]
    for entry in known:
        if name.lower() in (other.lower() for other in (entry["name"], *entry["aliases"])):
            return str(entry["name"])
    what = f"No model {name} has been profiled here, so the job runs as one that CPUs and memory do not slow;"
    print(f"{what}\nmuster profile measures it.", file=sys.stderr)
    return None


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in FINDS_PROGRAMS if name in os.environ}


def _named(given: Sequence[str]) -> dict[str, str]:
    """What --env names."""
    environment = {}
    problems = []
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals and name not in os.environ:
            what = "there is no such variable here; NAME=VALUE sets one"
            problems.append(Problem("--env", what, found=entry))
            continue
        if name in environment:
            problems.append(Problem("--env", f"{name} is given twice; give it once", found=entry))
        environment[name] = value if equals else os.environ[name]
    if problems:
        raise InputError(*problems)
    return environment


def _amounts(given: Sequence[str]) -> dict[str, float]:
    """What --resource states."""
    amounts = {}
    for entry in given:
        name, _, amount = entry.partition("=")
        if name in amounts:
            raise InputError(Problem("--resource", f"{name} is given twice; give it once", found=entry))
        try:
            amounts[name] = float(amount)
        except ValueError:
            what = "allowed: NAME=AMOUNT, for example power_watts=300"
            raise InputError(Problem("--resource", what, found=entry)) from None
    return amounts


def _deadline(text: str) -> float:
    """Seconds from now: a time as 6h, or a date and time of this machine's zone."""
    try:
        seconds = datetime.fromisoformat(text).timestamp() - time.time()
    except (ValueError, OverflowError):  # No date, or one at an end of the calendar.
        try:
            return flags.positive_seconds_of("--deadline", text)
        except InputError:
            what = "allowed: a time above 0, such as 6h, or a date and time, such as 2026-12-31T18:00"
            raise InputError(Problem("--deadline", what, found=text)) from None
    if seconds <= 0:
        raise InputError(Problem("--deadline", "it lies in the past; allowed: a time to come", found=text))
    return seconds


def _gb_or_auto(flag: str, text: str) -> float | None:
    return None if text == _AUTO else flags.gb_of(flag, text)


def _number(text: str) -> float | None:
    try:
        return None if text == _AUTO else float(text)
    except ValueError:
        raise InputError(Problem("--cpus", "allowed: a number of CPU cores, or auto", found=text)) from None
