"""`muster submit`: a job for the daemon, from flags or from a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.problems import BadInput, Problem

if TYPE_CHECKING:
    from muster.service.client import Client, Refusal

FINDS_PROGRAMS = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "TMPDIR",
)  # fmt: skip
"""What a job has of the environment in which it was submitted, besides what is named by --env."""

_FLAGS = {"memory_gb": "--memory", "compute_threads": "--threads", "environment": "--env"}
"""Of fields that are not called as their flags."""
_AUTO = "auto"


def submit(
    words: Annotated[
        list[str], typer.Argument(metavar="COMMAND... | FILE.toml", help="What to run; or a job file.")
    ],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Else the script's.")] = None,
    gpus: Annotated[int, typer.Option(metavar="N", help="All of them at once, or none.")] = 1,
    gpu_share: Annotated[float, typer.Option(metavar="SHARE", help="Of one GPU, as 0.5.")] = 1.0,
    ranks: Annotated[str, typer.Option(metavar="HOW", help="Processes: one a node, or per-gpu.")] = "one",
    cpus: Annotated[
        str, typer.Option(metavar="N", help="CPU cores to ask for (+requested heeds it); or auto.")
    ] = _AUTO,
    memory: Annotated[str, typer.Option(metavar="AMOUNT", help="Likewise, as 64GB; or auto.")] = _AUTO,
    threads: Annotated[int, typer.Option(metavar="N", help="OMP_NUM_THREADS, the same at each start.")] = 1,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Of the whole job, if known.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Whose sensitivity to go by.")] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="auto", help="Go by what is known of a model of the job's name.")
    ] = None,
    priority: Annotated[float, typer.Option(metavar="P", help="For schedulers that heed it.")] = 0.0,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Whose quota it counts for.")] = None,
    held: Annotated[bool, typer.Option("--hold", help="Wait for muster release first.")] = False,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="For its environment; repeatable.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", "-C", metavar="DIR", help="Where it runs; else here.")
    ] = None,
    stop_signal: Annotated[
        str | None, typer.Option(metavar="NAME", help="For a job without muster.training: saves, ends.")
    ] = None,
    progress: Annotated[
        str | None, typer.Option(metavar="REGEX", help=r"Likewise: 'step (?P<step>\d+)/' in its output.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Submit a job; once its number is told it is on the disk.

    Example: muster submit --name resnet --gpus 2 -- python train.py --epochs 3
    """
    from muster.service.client import Client

    if len(words) == 1 and words[0].endswith(".toml"):
        _submit_file(Path(words[0]), as_json)
        return
    told = flags.Gathering()
    request: dict[str, Any] = {
        "name": name or flags.script_of(words),
        "command": words,
        "directory": str((directory or Path()).absolute().resolve()),
        "environment": told.of(_environment, env or []),
        "gpus": gpus,
        "gpu_share": gpu_share,
        "ranks": ranks,
        "cpus": told.of(_number, cpus),
        "memory_gb": None if memory == _AUTO else told.of(flags.gb_of, "--memory", memory),
        "compute_threads": threads,
        "steps": steps,
        "priority": priority,
        "tenant": tenant,
        "held": held,
        "stop_signal": stop_signal,
        "progress": progress,
    }
    if profile is not None and (profile != _AUTO or model is not None):
        what = (
            "--profile auto goes by the job's name; --model NAME names another" if model else "auto is needed"
        )
        told.of(_refuse, Problem("--profile", what, found=profile))
    told.settle()
    with Client.of_environment() as client:
        request["model"] = model if profile is None else _known_model(client, request["name"])
        _post(client, request, _by_flags, as_json)


def _submit_file(path: Path, as_json: bool) -> None:
    from pydantic import Field

    from muster.checked_toml import field_problem, parse_toml
    from muster.files import read_text
    from muster.service.client import Client
    from muster.service.request import Folder, JobRequest

    class JobFile(JobRequest):
        """A request that runs where it was submitted unless it says otherwise."""

        directory: Folder = Field(default_factory=lambda: str(Path.cwd()))

    text = read_text(path)
    request = parse_toml(text, str(path), JobFile).model_dump(mode="json")
    request["environment"] = _environment([]) | request["environment"]

    def by_lines(refusal: Refusal) -> list[Problem]:
        return [
            field_problem(text, str(path), tuple(problem.column.split(".")), problem.what, problem.found)
            if problem.column
            else Problem(str(path), problem.what, found=problem.found)
            for problem in refusal.problems
        ]

    with Client.of_environment() as client:
        _post(client, request, by_lines, as_json)


def _post(client: Client, request: Mapping[str, Any], told: Any, as_json: bool) -> None:
    from muster.cli.runs import as_json_text
    from muster.service.client import Refusal

    try:
        answer = client.post("/v1/jobs", request)
    except Refusal as refusal:
        if not refusal.problems:
            raise
        raise BadInput(*told(refusal)) from None
    if as_json:
        print(as_json_text(answer), end="")
    else:
        state = "held" if request["held"] else "queued"
        print(f"Job {answer['job_id']} ({request['name']}) is {state}.")


def _by_flags(refusal: Refusal) -> list[Problem]:
    """The daemon's problems with a request, at the flags that they come from."""
    problems = []
    for problem in refusal.problems:
        field = (problem.column or "").partition(".")[0]
        flag = "COMMAND" if field == "command" else _FLAGS.get(field, f"--{field.replace('_', '-')}")
        problems.append(Problem(flag if field else "job", problem.what, found=problem.found))
    return problems


def _known_model(client: Client, name: str) -> str | None:
    known = client.get("/v1/models")["models"]
    for entry in known:
        if name.lower() in (other.lower() for other in (entry["name"], *entry["aliases"])):
            return str(entry["name"])
    what = f"No model {name} has been profiled here, so the job runs as one that CPUs and memory do not slow;"
    print(f"{what}\nmuster profile measures it.", file=sys.stderr)
    return None


def _environment(given: Sequence[str]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in FINDS_PROGRAMS if name in os.environ}
    problems = []
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals and name not in os.environ:
            what = "there is no such variable here; NAME=VALUE sets one"
            problems.append(Problem("--env", what, found=entry))
            continue
        environment[name] = value if equals else os.environ[name]
    if problems:
        raise BadInput(*problems)
    return environment


def _number(text: str) -> float | None:
    try:
        return None if text == _AUTO else float(text)
    except ValueError:
        raise BadInput(Problem("--cpus", "a number of CPU cores, or auto, is needed", found=text)) from None


def _refuse(problem: Problem) -> None:
    raise BadInput(problem)
