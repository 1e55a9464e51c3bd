"""Daemons and supervisors that die: at a line of their own code, or after a time.

Run as a process of its own; reads lines of JSON and answers each with a line: whether somebody died.
    {"who": "daemon", "line": 17, "folder": "...", "epoch": 1, "command": [...]}
    {"who": "controller", "seconds": 0.05, "folder": "...", "jobs": 20, "command": [...]}
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from muster.launcher import supervisor
from muster.service.engines.local import engine as engine_module
from muster.training import run_folder
from tests.service.engines.bench import Bench

_COUNTED = (
    str(Path(engine_module.__file__).parent),
    str(Path(supervisor.__file__).parent),
    run_folder.__file__,
)


def die_at(line: int) -> None:
    """From here on, this process (and none that it forks) is killed at this line of the engine's code."""
    left, pid = line, os.getpid()

    def tracer(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        nonlocal left
        if not frame.f_code.co_filename.startswith(_COUNTED):
            return None
        if event == "line" and os.getpid() == pid:
            left -= 1
            if left == 0:
                os.kill(pid, signal.SIGKILL)
        return tracer

    sys.settrace(tracer)


def daemon(order: dict[str, Any]) -> None:
    bench = Bench(Path(order["folder"]))
    launch = bench.described(1, order["epoch"], order["command"])
    die_at(order["line"])
    bench.engine.launch(launch)


def supervisor_of_that_start(order: dict[str, Any]) -> None:
    def spawn(folder: Path) -> int:
        child = os.fork()
        if child == 0:
            os.setsid()
            die_at(order["line"])
            supervisor.main(str(folder))
            os._exit(0)
        return child

    vars(engine_module)["spawn_supervisor"] = spawn
    bench = Bench(Path(order["folder"]))
    bench.launch(1, order["epoch"], order["command"])
    (child,) = bench.engine._children
    _, status = os.waitpid(child, 0)
    if status:
        os.kill(os.getpid(), signal.SIGKILL)


def controller(order: dict[str, Any]) -> None:
    """Launches what the engine does not know, writes down what has ended, forgets it; until all has."""
    if order["seconds"] is not None:
        signal.setitimer(signal.ITIMER_REAL, order["seconds"])  # ends a process that does not handle it
    bench = Bench(Path(order["folder"]))
    reply = bench.folder / "reported"
    ends = set(reply.read_text().split()) if reply.exists() else set()
    while len(ends) < order["jobs"]:
        seen = bench.engine.observe()
        for job in range(1, order["jobs"] + 1):
            if str(job) not in ends and job not in [one.job for one in seen]:
                bench.launch(job, 1, [*order["command"], str(job)])
        for one in seen:
            if one.ended is not None:
                if str(one.job) not in ends:
                    assert one.status == 0, one
                    with reply.open("a") as file:
                        file.write(f"{one.job}\n")
                    ends.add(str(one.job))
                bench.engine.forget(one.job, one.epoch)
        time.sleep(0.005)


WHO = {"daemon": daemon, "supervisor": supervisor_of_that_start, "controller": controller}


def main() -> None:
    for text in sys.stdin:
        order = json.loads(text)
        child = os.fork()
        if child == 0:
            WHO[order["who"]](order)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, -signal.SIGKILL, -signal.SIGALRM), code
        print(json.dumps(code != 0), flush=True)


if __name__ == "__main__":
    main()
