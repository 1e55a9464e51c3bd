"""`muster mcp`: read-only questions of an assistant, by the Model Context Protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LONGEST_SECONDS = 900.0
_MUSTER = (sys.executable, "-m", "muster")
_INSTRUCTIONS = (
    "Muster schedules training jobs on a shared GPU cluster. These tools only read: the queue of the running daemon, "
    "and logs and traces in files on this machine. Times are in seconds unless a name says otherwise."
)


def mcp() -> None:
    """Answer an assistant's questions on standard input and output (Model Context Protocol).

    Its tools are queue, why, would, advise and compare. None of them changes anything.

    Example: muster mcp
    """
    # The thread that reads standard input does not end by an exception, and there is nothing to clear up.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    import muster

    server = MCPServer("muster", instructions=_INSTRUCTIONS, version=muster.__version__)
    tools: tuple[Callable[..., str], ...] = (queue, why, would, advise, compare)
    for tool in tools:
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    server.run("stdio")


def queue(starts: bool = False) -> str:
    """Show which jobs run, which wait and why, as the running daemon has it.

    Args:
        starts: Also estimate when each waiting job starts, with an 80 % interval, by simulations of the queue.
    """
    return _answer("queue", *(["--start"] if starts else []))


def why(job: int) -> str:
    """Say why a job of the running daemon waits, or why it has what it has."""
    return _answer("why", "--", str(job))


def would(gpus: int, time_limit: str = "", log: str = "", cluster: str = "") -> str:
    """Estimate when a job would start, and whether a smaller one would start sooner. Nothing is submitted.

    Args:
        gpus: GPUs of the job.
        time_limit: Time limit of the job, as 4h; needed with a log.
        log: Path of the output of sacct, with running and waiting jobs; without it the running daemon is asked.
        cluster: With a log, the path of the output of scontrol show config and scontrol show node.
    """
    stated = (("gpus", gpus), ("time-limit", time_limit), ("cluster", cluster))
    flags = [f"--{name}={value}" for name, value in stated if value != ""]
    return _answer("would", *flags, *(["--", log] if log else []))


def advise(log: str, cluster: str) -> str:
    """Find what a Slurm site could do better, from its log alone.

    Args:
        log: Path of the output of sacct.
        cluster: Path of the output of scontrol show config and scontrol show node.
    """
    return _answer("advise", f"--cluster={cluster}", "--", log, with_folder=True)


def compare(trace: str, cluster: str, schedulers: list[str]) -> str:
    """Replay a trace under several schedulers.

    Args:
        trace: Path of the trace: CSV, Parquet, or the output of sacct.
        cluster: Nodes, as 16x8gpu,24cpu,500gb, or the path of a cluster file.
        schedulers: Names of schedulers, as fifo, slurm-like or gittins+joint.
    """
    from mcp.server.mcpserver.exceptions import ToolError

    if code := [name for name in schedulers if ":" in name]:
        raise ToolError(f"scheduler {code[0]}: found code; allowed: names that `muster schedulers` lists")
    flags = [f"--scheduler={name}" for name in schedulers]
    return _answer("compare", f"--cluster={cluster}", *flags, "--", trace, with_folder=True)


def _answer(command: str, *arguments: str, with_folder: bool = False) -> str:
    """What a command prints as JSON; what it writes besides goes to a folder that is removed."""
    from mcp.server.mcpserver.exceptions import ToolError

    with tempfile.TemporaryDirectory(prefix="muster-mcp-") as folder:
        out = (f"--out={Path(folder, 'out')}",) if with_folder else ()
        line = [*_MUSTER, command, "--json", *out, *arguments]
        try:
            done = subprocess.run(
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"muster {command} took longer than {_LONGEST_SECONDS:g} s") from None
    if done.returncode:
        raise ToolError(_message_of(done.stdout) or done.stderr.strip())
    return done.stdout


def _message_of(printed: str) -> str:
    """The message of an error that was printed as JSON; empty: it is none."""
    try:
        answer: Any = json.loads(printed)
        return str(answer["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""
