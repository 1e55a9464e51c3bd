"""What each page shows, from the answers of the API alone, so that a page never differs from it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from muster.formatting import amount_of, counted, duration, gpus, number, percent, thousandths
from muster.schedulers.honours import PRIORITY, honoured
from muster.schedulers.presets import known_presets
from muster.service.api import history, jobs, nodes, what_if
from muster.service.api.service import Service, check_operator
from muster.service.interval_ends import IntervalEnd
from muster.service.pages.charts import Span, span, step_line
from muster.service.pages.map_colours import (
    NAMELESS,
    OTHERS,
    WITH_KEY,
    Attribute,
    colours_of,
    first_jobs,
    first_jobs_held,
    key_of,
    own_colours,
    value_of,
)
from muster.service.pages.rendering import GpuCell, colour_class
from muster.service.pages.speed_chart import speed_chart
from muster.service.request import JobRequest
from muster.service.store.rows import Caller, Holder, JobOrder, State
from muster.service.waiting import differing_clocks, nothing_starts, untaken_jobs

_HOUR = 3600.0
_DAY = 86400.0
_SHOWN_EVENTS = 12
_SHOWN_JOBS = 10
_RESOURCES = (("gpus", "GPUs"), ("cpus", "CPU cores"), ("memory_gb", "GB of memory"))
_RESTART_COLOUR = "c4"
_PARTS = (
    "simulates the jobs as they are scheduled now",
    "simulates them as asked",
    "writes the report",
)
"""Of an answer to a question, in their order."""
Colouring: TypeAlias = Attribute | Literal["use"]
"""What GPUs of the map are coloured by."""
BUSY = (
    (0.5, "busy half of the time or more", 2),
    (0.05, "busy less than half of the time", 0),
    (0.0, "idle", 1),
)
"""How busy a GPU of a job is at least, what that is called, and its colour."""
ENDS = {
    IntervalEnd.COMPLETED: ("✓", "completed"),
    IntervalEnd.PREEMPTED: ("‖", "preempted"),
    IntervalEnd.MOVED: ("→", "moved"),
    IntervalEnd.RESIZED: ("↔", "resized"),
    IntervalEnd.HELD: ("■", "held"),
    IntervalEnd.FAILED: ("✗", "failed"),
    IntervalEnd.CANCELLED: ("⊘", "cancelled"),
    IntervalEnd.TIMED_OUT: ("◷", "its time limit was over"),
    IntervalEnd.DIED: ("†", "died, and starts again"),
    IntervalEnd.TAKEN_BACK: ("↶", "taken back, as the engine had not begun it"),
    IntervalEnd.STOPPED: ("|", "asked to stop; an earlier version did not note why"),
}
"""The sign and the words of each way in which a bar of the timeline ends."""
ORDERS = {
    JobOrder.ID: "newest",
    JobOrder.NAME: "name",
    JobOrder.USER: "user",
    JobOrder.STATE: "state",
    JobOrder.GPU_SECONDS: "GPU time",
    JobOrder.RUN_SECONDS: "running time",
    JobOrder.PREEMPTIONS: "preemptions",
    JobOrder.REASON: "reason",
}


def overview(service: Service, caller: Caller) -> dict[str, Any]:
    """The cluster, the queue, what changed lately, and what is wrong."""
    with service.store.together():
        return _overview(service, caller)


def _overview(service: Service, caller: Caller) -> dict[str, Any]:
    now = time.time()
    machines = nodes.nodes(service, caller)["nodes"]
    running, waiting = (
        jobs.search(service, caller, jobs.JobSearchQuery(state=[state], descending=False, limit=_SHOWN_JOBS))
        for state in (State.RUNNING, State.QUEUED)
    )
    demand = jobs.waiting_demand(service)
    held = [_held(machines, name, label) | _needed(name, demand[name]) for name, label in _RESOURCES]
    counts = service.store.counts()
    return {
        "sentence": f"{held[0]['text']}; {counted(counts[State.RUNNING], 'job')} running, "
        f"{counted(counts[State.QUEUED], 'job')} waiting.",
        "resources": held,
        "counts": {state.value: count for state, count in counts.items() if count},
        "warnings": _warnings(service, caller, machines),
        "running": running["jobs"],
        "more_running": running["total"] - len(running["jobs"]),
        "waiting": waiting["jobs"],
        "more_waiting": waiting["total"] - len(waiting["jobs"]),
        "events": _events(service, caller, now - _HOUR),
        "lost": _lost(history.use_of_users(service, caller)),
        "day": _day(service, caller, now, held[0]["held"], counts[State.QUEUED]),
        "now": now,
    }


def machine_map(service: Service, caller: Caller, by: Colouring) -> dict[str, Any]:
    """The nodes by rack, each GPU coloured by its job, by what that is called or whose it is, or by how busy it is."""
    with service.store.together():
        machines = nodes.nodes(service, caller)["nodes"]
        by_id = service.store.holders(None if caller.operator else caller.user)
    known = any(any(machine["gpu_use"]) for machine in machines)
    colours, key = _map_colours(machines, by_id, by, known=known)
    racks: dict[str, list[dict[str, Any]]] = {}
    for machine in machines:
        uses = machine["gpu_use"] or [None] * machine["gpus"]
        cells = tuple(
            _cell(gpu, here, use, by_id, by, colours)
            for gpu, (here, use) in enumerate(zip(machine["gpu_jobs"], uses, strict=True))
        )
        racks.setdefault(machine["rack"], []).append(machine | {"cells": cells})
    return {
        "racks": racks,
        "by": by,
        "choices": [one for one in (*get_args(Attribute), "use") if one != "use" or known or by == "use"],
        "use_known": known,
        "key": key,
        "resources": _RESOURCES,
        "operator": caller.operator,
    }


def job_list(service: Service, caller: Caller, wanted: jobs.JobSearchQuery) -> dict[str, Any]:
    """A page of the jobs that are searched for, and where the pages around it are."""
    found = jobs.search(service, caller, wanted)
    asked = {
        "text": wanted.text,
        "user": wanted.user or "",
        "state": [state.value for state in wanted.state],
        "order": wanted.order.value,
        "descending": str(wanted.descending).lower(),
    }
    first, total = wanted.offset, found["total"]
    return found | {
        "asked": asked,
        "states": [state.value for state in State],
        "orders": {order.value: label for order, label in ORDERS.items()},
        "first": min(first + 1, total),
        "last": min(first + len(found["jobs"]), total),
        "earlier": None if first == 0 else asked | {"offset": max(first - wanted.limit, 0)},
        "later": None if first + wanted.limit >= total else asked | {"offset": first + wanted.limit},
        "operator": caller.operator,
        "now": time.time(),
    }


def job_story(service: Service, caller: Caller, job_id: int) -> dict[str, Any]:
    """One job at one moment: what it asked for and has, where it has run, and what happened to it."""
    with service.store.together():
        return _job_story(service, caller, job_id)


def _job_story(service: Service, caller: Caller, job_id: int) -> dict[str, Any]:
    job = jobs.job(job_id, service, caller)
    now = time.time()
    since, until = job["submitted"], job["finished"] or now
    origin = service.store.origin
    stretches: list[tuple[Span, str, str]] = []
    for interval in service.store.allocation_intervals(job_id):
        begin = origin + interval.since
        end = until if interval.until is None else origin + interval.until
        held = duration(max(end - begin, 0.0))
        words = f"{gpus(interval.allocation.gpus)} on {interval.allocation.node} for {held}"
        stretches.append((span(begin, end, since, until), interval.allocation.node, words))
    places = list(dict.fromkeys(node for _, node, _ in stretches))
    ran = job["run_seconds"]
    series = jobs.series(job_id, service, caller)
    return {
        "job": job,
        "request": _asked_for(job["request"]),
        "events": jobs.events(job_id, service, caller)["events"][::-1],
        "places": places,
        "stretches": [(where, places.index(node), words) for where, node, words in stretches],
        "series": series,
        "resizes": len(series["starts"]) - job["starts"],
        "speed": speed_chart(series, until),
        "spent": _spent(series["spent"]),
        "predicted": _predicted(series["shares"]),
        "runs_since": job["last_start"] if job["state"] is State.RUNNING else None,
        "restart_share": job["restart_seconds"] / ran if ran > 0 else None,
        "own": job["user"] == caller.user,
        "rank": job["failed_rank"] or 0,
        "has_priorities": PRIORITY in honoured(service.status.policy),
        "ended": job["finished"] is not None,
        "now": now,
        "until": until,
    }


def _asked_for(request: JobRequest) -> list[tuple[str, str]]:
    """What a job states, as a person would write it, without its environment, which may have secrets."""
    fields = request.model_dump(exclude_none=True, exclude_defaults=True, exclude={"environment"})
    return [_with_unit(name, value) for name, value in fields.items()]


def _with_unit(name: str, value: Any) -> tuple[str, str]:
    """A field without its unit, which stands behind the value."""
    for ending, written in (("_seconds", duration), ("_gb", lambda amount: f"{number(amount)} GB")):
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " "), written(value)
    return name.replace("_", " "), _written(value)


def _written(value: Any) -> str:
    """A command as a shell takes it, a yes or no, amounts by name, or the value itself."""
    if isinstance(value, tuple | list):
        return shlex.join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {amount:g}" for name, amount in value.items())
    return str(value)


def _spent(seconds: Mapping[str, float]) -> list[tuple[str, float, str, str]]:
    """What has taken a job's time: its name, share, colour and how long it took."""
    whole = max(sum(seconds.values()), 1e-9)
    return [
        (name, seconds[field] / whole, colour, f", {duration(seconds[field])}")
        for name, field, colour in (
            ("waiting or held", "waiting_seconds", "c6"),
            ("restarts", "restart_seconds", _RESTART_COLOUR),
            ("at work", "working_seconds", "c5"),
        )
    ]


def _predicted(shares: Mapping[str, float] | None) -> list[tuple[str, float, str, str]]:
    """Likewise, as its model divides it."""
    colours = ("c1", "c2", "c3", _RESTART_COLOUR)
    return [(*part, colour, "") for part, colour in zip((shares or {}).items(), colours, strict=False)]


def timeline(service: Service, caller: Caller) -> dict[str, Any]:
    """The rows of the timeline, how its bars end, and the colours of the map; its script asks for the bars."""
    with service.store.together():
        held = service.store.held_now()
        by_id = service.store.holders(None if caller.operator else caller.user)
    firsts = first_jobs_held(held, by_id)
    return {
        "rows": [{"node": node.name, "gpus": node.gpus} for node in service.status.cluster.nodes],
        "ends": ENDS,
        "choices": get_args(Attribute),
        "colours": {"own": own_colours(firsts, by_id), "keyed": WITH_KEY, "nameless": NAMELESS},
    }


def user_list(service: Service, caller: Caller) -> dict[str, Any]:
    """What each user and each tenant holds and has had."""
    found = history.users(service, caller)
    tenants = found["tenants"]
    return {
        "users": _with_shares(found["users"], "user"),
        "tenants": [
            tenant | {"named": _tenant_named(tenant["tenant"]), "balance": _balance(tenant)}
            for tenant in _with_shares(tenants, "tenant")
        ],
        "loans": [_loans(tenant, tenants) for tenant in tenants if tenant["borrows"]],
        "guaranteed": any(tenant["share"] == "guaranteed" for tenant in tenants),
        "operator": caller.operator,
    }


def _with_shares(found: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    """The same with the share of the GPU time of them all, largest first."""
    whole = sum(one["attained_gpu_seconds"] for one in found)
    shares = [one["attained_gpu_seconds"] / whole if whole > 0 else 0.0 for one in found]
    rows = sorted(zip(found, shares, strict=True), key=lambda row: (-row[1], row[0][name]))
    return [{**one, "time_share": share} for one, share in rows]


def _tenant_named(tenant: str) -> str:
    return f"tenant {tenant}" if tenant else "no tenant"


def _balance(tenant: Mapping[str, Any]) -> str:
    """By how much a tenant is above or below its share."""
    above = round(tenant["held_gpus"] - tenant["share_gpus"], 3)
    if above == 0:
        return "at its share"
    return f"{thousandths(abs(above))} {'above' if above > 0 else 'below'}"


def _loans(tenant: Mapping[str, Any], tenants: Sequence[Mapping[str, Any]]) -> str:
    """From whom a tenant borrows: `Tenant b borrows 3 GPUs: 1 unclaimed, 2 of the 4 of tenant a`."""
    shares = {one["tenant"]: one["share_gpus"] for one in tenants}
    parts = [
        f"{thousandths(loan['gpus'])} unclaimed"
        if loan["lender"] is None
        else f"{thousandths(loan['gpus'])} of the {thousandths(shares[loan['lender']])} of "
        + (_tenant_named(loan["lender"]) if loan["lender"] else "the jobs without a tenant")
        for loan in tenant["borrows"]
    ]
    who = f"Tenant {tenant['tenant']} borrows" if tenant["tenant"] else "Jobs without a tenant borrow"
    return f"{who} {gpus(sum(loan['gpus'] for loan in tenant['borrows']))}: {', '.join(parts)}."


def what_if_list(service: Service, caller: Caller) -> dict[str, Any]:
    """What may be asked for, and the last questions with their answers."""
    check_operator(caller)
    return {
        "asked": what_if.what_ifs(service, caller)["what_ifs"],
        "parts": _PARTS,
        "scheduler": service.status.scheduler,
        "schedulers": sorted(known_presets()),
        "now": time.time(),
    }


def _held(machines: Sequence[Mapping[str, Any]], name: str, label: str) -> dict[str, Any]:
    whole, held, others = (
        sum(machine[f"{prefix}{name}"] for machine in machines) for prefix in ("", "held_", "others_")
    )
    text = f"{amount_of(name, held)} of {amount_of(name, whole)} {label} held"
    if others:
        text += f", {amount_of(name, others)} by jobs of others"
    return {"label": label, "held": held, "others": others, "whole": whole, "text": text}


def _needed(name: str, demand: Mapping[str, Any]) -> dict[str, Any]:
    """What waiting jobs ask for beside what is held; no words where they ask for nothing."""
    amount, jobs = demand["amount"], counted(demand["jobs"], "waiting job")
    words = f"{amount_of(name, amount)} more asked for by {jobs}" if amount else ""
    return {"needed": amount, "needed_text": words}


def _cell(
    gpu: int,
    here: Sequence[int | None],
    use: Mapping[str, float | None] | None,
    by_id: Mapping[int, Holder],
    by: Colouring,
    colours: Mapping[int, str] | None,
) -> GpuCell:
    """One GPU of the map: the jobs there, how busy it is, and its colour; without those of jobs by how busy it is."""
    known = [job for job in here if job is not None]
    words = [_named(job, by_id[job], by) for job in known]
    if len(here) > len(known):
        words.append(f"{counted(len(here) - len(known), 'job')} of other users")
    words = words or ["free"]
    busy = None if use is None else use["busy"]
    if busy is not None:
        words.append(f"{100 * busy:.0f} % busy")
    if use is not None and use["memory_gb"] is not None:
        words.append(f"{thousandths(round(use['memory_gb'], 1))} GB taken")
    colour = _use_colour(busy) if colours is None or not known else colours[known[0]]
    return GpuCell(gpu, known[0] if known else None, bool(here), colour, ", ".join(words))


def _named(job: int, holder: Holder, by: Colouring) -> str:
    """A job on the map; with its tenant where that colours it."""
    words = f"job {job} {holder.name} of {holder.user}"
    return f"{words}, {_tenant_named(holder.tenant or '')}" if by == "tenant" else words


def _use_colour(busy: float | None) -> str:
    """The class of a GPU that is so busy."""
    return (
        OTHERS if busy is None else next(colour_class(colour) for least, _, colour in BUSY if busy >= least)
    )


def _map_colours(
    machines: Sequence[Mapping[str, Any]], by_id: Mapping[int, Holder], by: Colouring, *, known: bool
) -> tuple[dict[int, str] | None, list[tuple[str, str]]]:
    """The class of each job that is the first of a GPU, and what classes mean; None: they say how busy GPUs are."""
    if by == "use":
        return None, [(colour_class(colour), label) for _, label, colour in BUSY] if known else []
    firsts = first_jobs(machines)
    colours = colours_of(firsts, by_id, by)
    of_jobs = {job: colours[value_of(job, by_id, by)] for node in firsts for job in node}
    if by not in WITH_KEY:
        return of_jobs, []
    unseen = any(here and set(here) == {None} for one in machines for here in one["gpu_jobs"])
    return of_jobs, key_of(colours, more=unseen)


def _events(service: Service, caller: Caller, since: float) -> list[dict[str, Any]]:
    """What happened lately to jobs that the caller may see, newest first."""
    store = service.store
    found = store.events_after(max(store.newest_event() - 1000, 0), 1000, since - store.origin)
    seen = [entry for entry in found if caller.operator or entry.user == caller.user]
    return [
        {
            "job_id": entry.event.job,
            "user": entry.user,
            "time": store.origin + entry.event.time,
            "kind": entry.event.kind,
            "detail": entry.event.detail,
        }
        for entry in seen[: -_SHOWN_EVENTS - 1 : -1]
    ]


def _lost(users: Sequence[Mapping[str, Any]]) -> str:
    ran = sum(user["run_seconds"] for user in users)
    lost = sum(user["restart_seconds"] for user in users)
    if ran <= 0:
        return "No start of a job has ended yet."
    return f"Restarts have taken {duration(lost)} of {duration(ran)} that jobs ran, {percent(lost / ran)}."


def _day(service: Service, caller: Caller, now: float, held_gpus: float, waiting: int) -> dict[str, Any]:
    """GPUs held and jobs waiting over the last day, or since the first decision where that is later, and now."""
    present = {"time": now, "held_gpus": held_gpus, "waiting": waiting}
    points = [*history.usage(service, caller, now - _DAY)["points"], present]
    since = points[0]["time"] if len(points) > 1 else now - _HOUR
    whole = service.status.cluster.total_gpus
    return {
        "since": since,
        "held": step_line([(point["time"], point["held_gpus"]) for point in points], since, now, whole),
        "waiting": step_line([(point["time"], float(point["waiting"])) for point in points], since, now, 1.0),
    }


def _warnings(service: Service, caller: Caller, machines: Sequence[Mapping[str, Any]]) -> list[str]:
    status = service.status
    found = nothing_starts(status, caller, service.store.now()) + untaken_jobs(status, caller)
    if drained := [machine["name"] for machine in machines if machine["drained"]]:
        found.append(f"{counted(len(drained), 'node')} drained: {', '.join(drained[:5])}.")
    if away := [machine["name"] for machine in machines if machine["away"]]:
        found.append(f"{counted(len(away), 'node')} that the engine cannot use now: {', '.join(away[:5])}.")
    found += differing_clocks(status)
    if service.limits.error:
        found.append(f"The limits are those of an earlier file: {service.limits.error}.")
    return found
