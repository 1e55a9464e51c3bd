"""The command `muster`: which commands there are, and how every failure becomes words and an exit status.

Only the command that is asked for is imported, so `muster --help` answers at once. A file of this folder
named as the command holds it: a function, or a `typer.Typer` with commands of its own. `reproduce` is not in the wheel:
the package of the experiments registers it as an entry point.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

import muster
from muster.cli.failures import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    OK,
    error_of,
    report_failure,
    report_unwritable,
)
from muster.cli.help import Command, sections_of
from muster.cli.usage import usage_error
from muster.extras import missing_package
from muster.files import disk_error
from muster.problems import InputError, Problem, Unable

TRYING = {
    "simulate": "Replay a trace on a cluster under one scheduler.",
    "compare": "Replay a trace under several schedulers, side by side.",
    "advise": "Find what a site could do better, from its log.",
    "capacity": "Find how many more nodes a target takes.",
    "would": "Estimate when a job would start, without submitting it.",
    "calibrate": "Set a simulated scheduler beside a log's own starts.",
    "replay": "Decide a snapshot again, and show what differs.",
    "generate": "Make a trace: Synergy's, SMD's, like Philly, mixed; a Slurm log.",
    "convert": "Read a trace of Philly, Helios, Alibaba, Slurm; write ours.",
    "cluster": "Write the cluster file of a Slurm site or Ray cluster.",
    "sweep": "Replay many workloads under many schedulers; can be resumed.",
    "reproduce": "Repeat a paper's experiments; set the results beside it.",
    "schedulers": "List the parts and presets that schedulers are made of.",
    "report": "Make a page with charts of a run, comparison or export.",
    "network": "Show how fast a model runs on each kind of placement.",
    "size": "Find a job's best number of workers and servers.",
    "mcp": "Answer an assistant's questions; changes nothing.",
    "profile": "Measure how a job depends on CPU, memory and storage.",
}
RUNNING = {
    "serve": "Schedule and run jobs on this machine, in Slurm or Ray.",
    "submit": "Submit a job.",
    "queue": "Show what each job holds since when, or why it waits.",
    "status": "Show how far a job is, what it holds, what happened to it.",
    "why": "Say why a job waits, behind which, when it may start.",
    "logs": "Print what a job has written; -f follows it.",
    "cancel": "End jobs for good.",
    "hold": "Let jobs wait until they are released.",
    "release": "Let held jobs compete again.",
    "priority": "Change the priority of jobs.",
    "dashboard": "Open the live page in a browser.",
    "top": "Show nodes and queue in the terminal, live.",
    "nodes": "Show the machines and what of them is held.",
    "drain": "Start nothing on a machine any more.",
    "snapshot": "Write the whole input of the last decision.",
    "export": "Write the record of what really happened.",
    "prune": "Remove jobs that ended long ago.",
    "token": "Make, list and revoke access tokens.",
}
COMMANDS = TRYING | RUNNING
ENTRY_POINTS = "muster.commands"
_FILES = {
    "cancel": "requests",
    "hold": "requests",
    "release": "requests",
    "priority": "requests",
    "drain": "nodes",
}
"""The file of a command whose file is not named as the command."""
_BY_ENTRY_POINT = {
    "reproduce": "the experiments are in the source repository alone. Hint: clone it and run make install there",
}
"""Commands that another package brings, and the error without it."""
_SECTIONS = (("Commands", TRYING), ("Commands of a running daemon", RUNNING))


class Interrupted(Exception):
    """A command that was interrupted and has something to say about what is left of it."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit status."""
    as_json = "--json" in arguments
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]  # Of a terminal that does not know its width: tables would have no columns.
    try:
        app = app_with(_command_asked_for(arguments))
        status = typer.main.get_command(app).main(arguments, prog_name="muster", standalone_mode=False)
    except (InputError, Unable) as failure:
        if os.environ.get("MUSTER_DEBUG") and failure.__cause__:
            traceback.print_exc()
        return report_failure(as_json, **error_of(failure))
    except typer.TyperException as error:
        return report_failure(as_json, BAD_INPUT, usage_error(error))
    except Interrupted as stop:
        return report_failure(as_json, INTERRUPTED, str(stop))
    except (KeyboardInterrupt, typer.Abort):
        return report_failure(as_json, INTERRUPTED, "interrupted; nothing was written")
    except Exception as error:
        return _report_unexpected(as_json, error, arguments)
    if status == INTERRUPTED:
        return report_failure(as_json, INTERRUPTED, "interrupted; nothing was written")
    return status or OK


def _report_unexpected(as_json: bool, error: Exception, arguments: Sequence[str]) -> int:
    """Print an error that no command expects; the exit status."""
    missing = missing_package(error, of_service=_command_asked_for(arguments) in RUNNING)
    if missing is not None:
        return report_failure(as_json, **error_of(missing))
    if isinstance(error, OSError) and error.filename is None and disk_error(error) is not None:
        return report_unwritable(error)  # Files that cannot be written are named (muster.files).
    if os.environ.get("MUSTER_DEBUG"):
        traceback.print_exc()
    what = f"{type(error).__name__}: {error}"
    return report_failure(as_json, FAILED, f"{what}\nMUSTER_DEBUG=1 shows where it happened.")


class LogLevel(StrEnum):
    """How severe a log message is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def app_with(asked: str | None) -> typer.Typer:
    """All commands, the one asked for with its parameters, the others with their sentence alone."""
    app = typer.Typer(
        name="muster",
        cls=sections_of(_SECTIONS),
        help="Decide when each training job on a shared GPU cluster runs, how much it gets and where it runs.",
        epilog="One command in full: muster COMMAND --help",
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, sentence in COMMANDS.items():
        command = _command(name) if name == asked else _not_asked
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, cls=Command, help=None if name == asked else sentence)(command)
    return app


def _command(name: str) -> Any:
    """The function or group of a command. InputError if it comes with another package that is not installed."""
    if name not in _BY_ENTRY_POINT:
        return getattr(importlib.import_module(f"muster.cli.{_FILES.get(name, name)}"), name)
    from importlib.metadata import entry_points

    point = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    if point is None:
        raise InputError(Problem(f"muster {name}", _BY_ENTRY_POINT[name]))
    return point.load()


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {muster.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True),
    ] = False,
    log_level: Annotated[
        LogLevel,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help="Least level of the log on stderr: debug, info, warning or error.",
        ),
    ] = LogLevel.WARNING,
) -> None:
    """Stands before every command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("muster: %(message)s"))
    logger = logging.getLogger("muster")  # Of this package alone.
    logger.handlers = [handler]
    logger.setLevel(log_level.upper())


def _not_asked() -> None:
    """Stands for a command that this command line does not name."""


def _command_asked_for(arguments: Sequence[str]) -> str | None:
    """The command of the command line, or of the one that a shell asks to complete."""
    typed: Sequence[str] = arguments
    if "_MUSTER_COMPLETE" in os.environ:
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
        typed = line.split()[1:]
    return next((word for word in typed if word in COMMANDS), None)
