"""`muster replay`: decide a snapshot again, by its own scheduler or by another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.console import as_wide_as_terminal

if TYPE_CHECKING:
    from muster.runtime.snapshots.file import SnapshotFile
    from muster.runtime.snapshots.replay import Replayed

_SHOWN = 40


def replay(
    snapshot: Annotated[
        Path,
        typer.Argument(metavar="SNAPSHOT", help="File of muster snapshot or muster simulate --snapshot-at."),
    ],
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Scheduler that decides (default: the one of the snapshot)."),
    ] = None,
    settings: flags.Settings = None,
    as_json: flags.Json = False,
) -> None:
    """Decide a snapshot again, and show what differs from the decision that was carried out.

    Example: muster replay snapshot.json --scheduler las+tune
    """
    from muster.formatting import as_json_text
    from muster.runtime.snapshots import replay as replaying
    from muster.runtime.snapshots.decided import differences, other_schedule
    from muster.runtime.snapshots.file import read_snapshot

    chosen = flags.parse_settings(settings or [])
    file = read_snapshot(snapshot)
    again = replaying.replay(file, str(snapshot), scheduler, chosen)
    if as_json:
        answer = {
            "time_seconds": file.time,
            "source": file.source,
            "recorded": {"scheduler": file.scheduler.name, **file.decision.model_dump()},
            "replayed": {
                "scheduler": again.scheduler.name,
                "remembers": again.remembers,
                **again.decision.model_dump(),
            },
            "same": again.decision == file.decision,
            "differences": [one.to_dict() for one in differences(file.decision, again.decision)],
            "other_schedule": other_schedule(file.decision, again.decision),
        }
        print(as_json_text(answer), end="")
        return
    _print(file, again)


def _print(file: SnapshotFile, again: Replayed) -> None:
    """The jobs of which the decisions differ, or the decision where they do not."""
    from rich.console import Console
    from rich.table import Table

    from muster.formatting import counted
    from muster.runtime.snapshots.decided import differences, other_schedule, sentence

    name, other = file.scheduler.name, again.scheduler.name
    different = differences(file.decision, again.decision)
    schedule = other_schedule(file.decision, again.decision)
    jobs = counted(len(file.jobs.number), "job")
    print(
        f"A decision of {name} at {file.time:g} s of a {file.source}, with {jobs}; decided again by {other}."
    )
    if not again.remembers:
        print(f"{other} begins without a memory: it is another scheduler than the one of the snapshot.")
    table = Table("job", "decided", "decided again") if different else Table("job", "decided")
    rows: list[tuple[str, ...]] = [
        (one.job, sentence(one.first), sentence(one.second)) for one in different
    ] or [(row["job"], sentence({"reason": None, **row})) for row in file.decision.actions]
    for row in rows[:_SHOWN]:
        table.add_row(*row)
    if rows:
        as_wide_as_terminal(Console(markup=False, highlight=False)).print(table)
    if len(rows) > _SHOWN:
        print(f"{counted(len(rows) - _SHOWN, 'more job')}; --json has all.")
    if different:
        alike = len(file.jobs.number) - len(different)
        verb = "differs" if len(different) == 1 else "differ"
        print(f"{counted(len(different), 'job')} {verb}; of {alike:,} both say the same.")
        return
    changes = counted(len(file.decision.actions), "action")
    print(f"The same decision: {changes}, {counted(len(file.decision.pending), 'job')} waiting.")
    if schedule:
        print(f"When to decide again differs: {', '.join(schedule)}.")
