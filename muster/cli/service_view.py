"""What the commands of a running daemon share: its jobs and machines as tables of 80 columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from muster.cli.console import as_wide_as_terminal
from muster.problems import InputError, Unable
from muster.service.client import Client, Refusal, Unanswered
from muster.service.shown import gpus_of, state_since

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from muster.cli.long_table import LongTable

Job = Mapping[str, Any]
Answer = TypeVar("Answer")
_BETWEEN_SECONDS = 2.0

JobId = Annotated[int, typer.Argument(metavar="JOB", min=1, help="Number of the job.")]
JobIds = Annotated[list[int], typer.Argument(metavar="JOB", min=1, help="Numbers of the jobs.")]


def watch_live(look: Callable[[Client], Answer], shown: Callable[[Answer], list[Any]]) -> None:
    """Show what `look` finds again and again until interrupted; without a daemon, look for one."""
    from rich.console import Group
    from rich.live import Live

    from muster.service.client import PatientClient

    last: list[Any] = []
    with (
        PatientClient() as patient,
        suppress(KeyboardInterrupt),
        Live(console=_console(), auto_refresh=False, screen=True) as live,
    ):

        def wait(why: Unable) -> None:
            live.update(Group(*last, f"{why}. Looking for it again."), refresh=True)
            time.sleep(_BETWEEN_SECONDS)

        while True:
            last = shown(patient.ask(look, wait))
            live.update(Group(*last), refresh=True)
            time.sleep(_BETWEEN_SECONDS)


def for_each(
    jobs: Sequence[int],
    what: str,
    done: Callable[[Job], str],
    as_json: bool,
    body: Mapping[str, Any] | None = None,
) -> None:
    """Requests something for each job; reports all refusals together, after the other jobs are done."""
    from muster.cli.failures import as_document, error_of
    from muster.formatting import as_json_text

    answers: list[Job] = []
    refusals: list[Refusal] = []
    failure: InputError | Unable | None = None
    wanted = list(dict.fromkeys(jobs))
    with (
        Client.of_environment() as client,
        unsure_if_interrupted(f"muster queue shows whether to {what} again"),
    ):
        for job in wanted:
            try:
                answers.append(client.post(f"/v1/jobs/{job}/{what}", body))
            except Refusal as refusal:
                refusals.append(refusal)
            except Unable as unable:
                # The daemon is not well, so the next jobs are not requested.
                left = ranges(wanted[len(answers) + len(refusals) :])
                lines = [
                    *map(str, refusals),
                    f"{'jobs' if set(left) & set(',-') else 'job'} {left}: {unable}",
                ]
                failure = Unanswered("\n".join(lines), getattr(unable, "http_status", None))
                break
    if failure is None and refusals:
        problems = [problem for refusal in refusals for problem in refusal.problems]
        words = "\n".join(dict.fromkeys(map(str, refusals)))
        failure = Refusal(refusals[0].http_status, words, problems)
    if not as_json:
        for answer in answers:
            print(done(answer))
        if failure is not None:
            raise failure
    elif failure is None:
        print(as_json_text({"jobs": answers}), end="")
    else:
        error = error_of(failure)
        print(as_document(error, jobs=answers))
        raise typer.Exit(error["status"])


@contextmanager
def unsure_if_interrupted(what_to_do: str) -> Iterator[None]:
    """Around requests that change something: after an interruption it is not known which took effect."""
    from muster.cli.app import Interrupted

    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; what was asked may have been done: {what_to_do}") from None


def interruptions(request: Mapping[str, Any], *, joined: bool) -> str:
    """Whether a job is stopped to make room for others, and what it loses then, as one sentence."""
    stop_signal, allowed = request.get("stop_signal"), request.get("preemptible")
    if allowed is False:
        return "It is never stopped to make room for other jobs."
    if joined:
        saves = "muster.training saves its work"
    elif stop_signal is not None:
        saves = f"{stop_signal} makes it save its work"
    elif allowed:
        saves = "it loses its work then, unless it uses muster.training"
    else:
        return (
            "It is not stopped to make room for other jobs, unless it reports through muster.training; "
            "--stop-signal or --preemptible allow it."
        )
    return f"It may be stopped to make room for other jobs: {saves}."


def lost_share(job: Job) -> float:
    """Share of its running time that start-ups, stops and lost work have taken."""
    return job["restart_seconds"] / job["run_seconds"] if job["run_seconds"] > 0 else 0.0


def job_table(jobs: Iterable[Job], now: float, letters: Mapping[int, Text] | None = None) -> LongTable:
    """One line for each job: what it holds since when, or why it waits; `lost` where some were interrupted.

    `letters` stand before the jobs that have one.
    """
    from muster.cli.long_table import LongTable
    from muster.formatting import thousandths

    jobs = list(jobs)
    several = len({job["user"] for job in jobs}) > 1
    interrupted = any(job["starts"] > 1 for job in jobs)
    expected = any("start" in job for job in jobs)
    table = plain_table()
    table.expand = True
    if letters:
        table.add_column("", no_wrap=True)
    digits = max((len(str(job["job_id"])) for job in jobs), default=0)
    table.add_column("job", justify="right", no_wrap=True, min_width=max(digits, len("job")))
    for heading, most in (("name", _room_for_names(_console().width)), *((("user", 10),) if several else ())):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=most)
    table.add_column("state", no_wrap=True, min_width=len("running"))
    for heading in ("GPUs", "since", *(("lost",) if interrupted else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    if expected:
        table.add_column("expected start", no_wrap=True)
    table.add_column("where, or why it waits", no_wrap=True, overflow="ellipsis", ratio=1)
    rows = [
        (
            *((letters.get(job["job_id"], ""),) if letters else ()),
            str(job["job_id"]),
            job["name"],
            *((job["user"],) if several else ()),
            state_of(job),
            thousandths(gpus_of(job)),
            short_time(now - state_since(job)),
            *((f"{lost_share(job):.0%}",) if interrupted else ()),
            *((_expected(job),) if expected else ()),
            where_or_why(job),
        )
        for job in jobs
    ]
    return LongTable(table, rows)


def _room_for_names(width: int) -> int:
    """Half of what a terminal has beyond 80 columns is for names, the rest for reasons; the narrowest keep numbers."""
    return max(18 + max(width - 80, 0) // 2 - max(50 - width, 0), 6)


def _expected(job: Job) -> str:
    """`5.0 min (2.0 min to 12 min)`; nothing for a job that does not wait, or that some simulation never starts."""
    from muster.cli.starts import interval_of, moment_of

    start = job.get("start")
    if start is None:
        return ""
    median, interval = moment_of(start["median_seconds"]), interval_of(start)
    return median if median == interval else f"{median} ({interval})"


def node_with_state(node: Mapping[str, Any]) -> str:
    """`node-1 (drained, away)`."""
    states = [state for state in ("drained", "away") if node[state]]
    return f"{node['name']} ({', '.join(states)})" if states else str(node["name"])


def plain_table() -> Table:
    """A table without lines, its cells taken as they are."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def show(*renderables: Any) -> None:
    """On the terminal, 80 columns where there is none; nothing in names is taken for markup."""
    console = _console()
    for renderable in renderables:
        console.print(renderable)


def _console() -> Console:
    """A console that no text of a job or a user steers: strings are shown as they are, controls escaped."""
    from rich.console import Console

    from muster.formatting import printable

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return as_wide_as_terminal(PlainConsole(highlight=False, markup=False))


def state_of(job: Job) -> str:
    """Its state, or what it is on the way to."""
    if job["phase"] == "stopping":
        return "stopping"
    if job["phase"] == "starting":
        return "starting"
    return str(job["state"])


def where_or_why(job: Job) -> str:
    """Its GPUs, why it waits, or how it ended; before these, why the engine does not start it."""
    if job["refusal"]:
        return str(job["refusal"])
    if job["holds"]:
        return "; ".join(f"{held['node']}: {ranges(held['gpu_ids']) or 'CPUs only'}" for held in job["holds"])
    return str(job["message"] or job["reason_text"]).removeprefix("it ")


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,6` for 0, 1, 2, 3, 6."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def short_time(seconds: float) -> str:
    """How long ago."""
    from muster.formatting import duration

    return duration(seconds) if seconds >= 10 else f"{max(seconds, 0.0):.0f} s"


def moment(unix_seconds: float | None) -> str:
    """A time in the time zone of the terminal."""
    if unix_seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_seconds))


def every_job(client: Client, **chosen: Any) -> Iterable[Job]:
    """Jobs page by page, to the last one."""
    after = 0
    while after is not None:
        page = client.get("/v1/jobs", **chosen, after=after, limit=1000)
        yield from page["jobs"]
        after = page["next"]
