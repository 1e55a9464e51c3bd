"""`muster status`: all about one job."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

from muster.cli import flags
from muster.cli.service_view import JobId


def status(job: JobId, as_json: flags.Json = False) -> None:
    """Show how far a job is, what it holds, what happened to it.

    Example: muster status 17
    """
    from muster.cli.service_view import moment, plain_table, show
    from muster.formatting import as_json_text
    from muster.service.client import Client

    with Client.of_environment() as client:
        found = client.get(f"/v1/jobs/{job}")
        found["events"] = client.get(f"/v1/jobs/{job}/events")["events"]
    if as_json:
        print(as_json_text(found), end="")
        return
    facts = plain_table()
    facts.show_header = False
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(found):
        facts.add_row(name, value)
    show(f"Job {job}: {found['name']}", facts)
    history = plain_table()
    for event in found["events"]:
        history.add_row(moment(event["time"]), event["kind"], event["detail"])
    history.columns[0].no_wrap = history.columns[1].no_wrap = True
    history.show_header = False
    show("What happened", history)


def _facts(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from muster.cli.service_view import interruptions, lost_share, ranges, short_time, state_of
    from muster.formatting import duration, three_figures
    from muster.service.shown import state_since

    request = job["request"]
    passed = short_time(time.time() - state_since(job))
    yield "state", f"{state_of(job)} {passed} ago" if job["finished"] else f"{state_of(job)} for {passed}"
    if job["state_request"]:
        yield "requested", job["state_request"]
    if job["refusal"]:
        yield "not started by", job["refusal"]
    elif job["reason_text"]:
        yield "it waits, because", job["reason_text"]
    if job["message"]:
        yield "why it ended", job["message"]
    if job["status"] is not None:
        yield "exit status" if job["finished"] else "its last exit status", str(job["status"])
    yield "owner", job["user"]
    for held in job["holds"]:
        count = len(held["gpu_ids"])
        on = f"GPU {ranges(held['gpu_ids'])}" if count else "no GPU"
        share = f" ({held['gpus'] / count:.4g} of it)" if held["gpus"] < count else ""
        yield (
            f"on {held['node']}",
            f"{on}{share}, {_cores(held['cpus'])}, {held['memory_gb']:.4g} GB",
        )
    total = f" of {job['steps']:,}" if job["steps"] else ""
    rate = f", {three_figures(job['steps_per_second'])} a second" if job["steps_per_second"] else ""
    yield "steps", f"{job['steps_done']:,.0f}{total}{rate}"
    if job["steps"] and job["steps_per_second"] and job["state"] == "running":
        left = (job["steps"] - job["steps_done"]) / job["steps_per_second"]
        yield "left at this pace", duration(max(left, 0.0))
    times = (job["starts"], job["preemptions"], job["moves"])
    yield (
        "ran",
        f"{duration(job['run_seconds'])} before; starts {times[0]}, preempted {times[1]}, moved {times[2]}",
    )
    if job["restart_seconds"]:
        lost = f"{short_time(job['restart_seconds'])} ({lost_share(job):.0%} of it)"
        yield "restart loss", f"{lost}: start-ups, stops and lost work"
    if job["start_up_seconds"] is not None:
        stop = "" if job["stop_seconds"] is None else f", stop {short_time(job['stop_seconds'])}"
        yield "one restart", f"start-up {short_time(job['start_up_seconds'])}{stop}, as measured"
    yield "interruptions", interruptions(request, joined=job["uses_muster_training"])
    yield "asked for", _asked(request)
    yield "command", shlex.join(request["command"])
    yield "in", request["directory"]


def _cores(count: float) -> str:
    from muster.formatting import thousandths

    return f"{thousandths(count)} CPU core{'' if count == 1 else 's'}"


def _asked(request: Mapping[str, Any]) -> str:
    from muster.formatting import duration, gpus

    fewest, most = (request[name] or request["gpus"] for name in ("min_gpus", "max_gpus"))
    sizes = f" ({fewest} to {most})" if fewest < most else ""
    parts = [gpus(request["gpus"] * request["gpu_share"]) + sizes]
    if request["cpus"] is not None:
        parts.append(_cores(request["cpus"]))
    if request["memory_gb"] is not None:
        parts.append(f"{request['memory_gb']:g} GB")
    if request["own_memory_gb"] is not None:
        parts.append(f"{request['own_memory_gb']:g} GB not for cached samples")
    parts.append(f"as {request['model']}" if request["model"] else "unprofiled")
    if request["time_limit_seconds"] is not None:
        parts.append(f"at most {duration(request['time_limit_seconds'])} of running")
    if request["deadline_seconds"] is not None:
        parts.append(f"done {duration(request['deadline_seconds'])} after its submission")
    if request["priority"]:
        parts.append(f"priority {request['priority']:g}")
    return ", ".join(parts)
