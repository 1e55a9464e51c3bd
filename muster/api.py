"""The simulator from Python: `muster.simulate` and what it returns.

The names, defaults and checks are those of `muster simulate`; a record that `Result.save` writes has the same bytes.
"""

from __future__ import annotations

import html
import inspect
import io
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import polars as pl

from muster.cluster import Cluster
from muster.extras import CHARTS, missing_extra
from muster.files import write_folder_aside
from muster.folder_layouts import RECORD
from muster.formatting import as_json_text, typed
from muster.inputs import Inputs, PathName, RunOptions, inputs_of, knowledge_of
from muster.problems import ErrorCollector, InputError, Problem, did_you_mean, with_hint
from muster.report import summarise
from muster.runtime.records import Record
from muster.schedulers.contract import Scheduler
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.schedulers.registry import build_from
from muster.simulation import Run

PAGE_HEIGHT = 900
"""Pixels of the page in a notebook."""
TEXT_WIDTH = 100
"""Columns of a result as text."""


def simulate(
    jobs: object,
    cluster: PathName | Cluster,
    scheduler: str | Scheduler | type[Any] = DEFAULT_SCHEDULER,
    *,
    settings: Mapping[str, object] | None = None,
    records: bool = True,
    **options: Unpack[RunOptions],
) -> Result:
    """Replay jobs on a cluster under a scheduler, as `muster simulate` does.

    Args:
        jobs: The path of a trace file, a mapping of column names to lists or NumPy arrays, a data frame of Polars or
            pandas, or a Trace. Columns are those of a trace file; NaN and None are empty cells.
        cluster: A shipped name, a line such as `16x8gpu,24cpu,500gb`, the path of a cluster file, or a Cluster.
        scheduler: A name as on the command line, the class of a scheduler or of a part, or a Scheduler.
        settings: Settings of the scheduler, as `--set` takes them.
        records: Whether the result keeps the record; without it, only the figures remain.
        options: The other flags of `muster simulate`, for example `round=300`, `restart_cost="2min"` or `seed=1`.

    Raises:
        InputError: An input cannot be used. It names every column, row and value that was found.
    """
    if unknown := [name for name in options if name not in RunOptions.__annotations__]:
        hint = did_you_mean(unknown[0], RunOptions.__annotations__)
        raise TypeError(with_hint(f"simulate() got an unexpected keyword argument {unknown[0]!r}", hint))
    errors = ErrorCollector()
    texts = errors.of(_texts_of, settings)
    errors.of(_check_truth, "records", records)
    inputs = inputs_of(errors, jobs, cluster, texts, options)
    policy = errors.of(_scheduler_of, inputs, scheduler)
    errors.settle()
    inputs = replace(inputs, options=replace(inputs.options, records=records))
    return Result.of(inputs.run(policy), records=records)


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """What a simulation results in. In a notebook it shows the page of `muster report`."""

    summary: Mapping[str, Any]
    """The figures of `summary.json`."""
    record: Record | None
    """The tables and `run.json`; None if the simulation ran with `records=False`."""

    @classmethod
    def of(cls, run: Run, *, records: bool = True) -> Result:
        """The result of a run; without `records`, only its figures."""
        return cls(summarise(run.record, asdict(run.cost)), run.record if records else None)

    @property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs, a row a job."""
        return self._record.jobs

    @property
    def allocations(self) -> pl.DataFrame:
        """The table of allocations, a row an interval in which a job held resources on a node."""
        return self._record.allocations

    @property
    def decisions(self) -> pl.DataFrame:
        """The table of decisions, a row a decision."""
        return self._record.decisions

    @property
    def reasons(self) -> pl.DataFrame:
        """The table of pending reasons, a row an interval in which a job waited for one reason."""
        return self._record.reasons

    def save(self, folder: PathName, *, overwrite: bool = False) -> None:
        """Write the record and `summary.json` into a folder, whole or not at all, as `muster simulate --out` does.

        InputError if the folder exists and is not empty. With `overwrite`, a folder that holds nothing but what
        `muster simulate` and `muster report` write is replaced.
        """
        if not isinstance(folder, str | os.PathLike):
            raise InputError(Problem("folder", "allowed: the path of a folder", found=folder))
        _check_truth("overwrite", overwrite)
        with write_folder_aside(Path(folder), RECORD if overwrite else None) as aside:
            self.write(aside)

    def write(self, folder: Path) -> None:
        """Write the record and `summary.json` into an existing folder."""
        self._record.write(folder)
        (folder / "summary.json").write_text(as_json_text(self.summary), encoding="utf-8")

    def page(self) -> str:
        """The page with all figures and charts, as `muster report` writes it. InputError without the extra `charts`."""
        missing = missing_extra(CHARTS)
        if missing is not None:
            raise missing
        from muster.report.page import page_of

        return page_of(self._record, knowledge_of)

    @property
    def _record(self) -> Record:
        if self.record is None:
            what = "this result has figures only; simulate with records=True"
            raise InputError(Problem("records", what, found=False))
        return self.record

    def __repr__(self) -> str:
        """The table that `muster simulate` prints."""
        from rich.console import Console

        from muster.report.terminal import comparison_table

        text = io.StringIO()
        Console(file=text, width=TEXT_WIDTH).print(comparison_table([self.summary], TEXT_WIDTH))
        return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines())

    def _repr_html_(self) -> str:
        """The page in a frame of its own; the table alone where there is no record, or no package for charts."""
        missing = missing_extra(CHARTS)
        if self.record is not None and missing is None:
            page = html.escape(self.page())
            return f'<iframe srcdoc="{page}" width="100%" height="{PAGE_HEIGHT}" style="border: 0"></iframe>'
        note = "" if self.record is None else f"\n\nno charts: {missing}"
        return f"<pre>{html.escape(repr(self) + note)}</pre>"


def _texts_of(settings: object) -> dict[str, str]:
    """Settings of a scheduler as the command line takes them."""
    if settings is None:
        return {}
    if isinstance(settings, Mapping) and all(isinstance(name, str) for name in settings):
        return {name: typed(value) for name, value in settings.items()}
    what = "allowed: a mapping of names to values, as {'strict': True}"
    raise InputError(Problem("--set", what, found=settings))


def _check_truth(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InputError(Problem(name, "allowed: True or False", found=value))


def _scheduler_of(inputs: Inputs, scheduler: Any) -> Scheduler:
    """The scheduler of a name, a class or as it is; only the first two take settings."""
    if isinstance(scheduler, str):
        return inputs.scheduler(scheduler)
    if inspect.isclass(scheduler):
        return build_from(scheduler, inputs.settings)
    if not hasattr(scheduler, "decide"):
        what = "allowed: a name, a class of a scheduler or part, or a scheduler with decide(snapshot, state)"
        raise InputError(Problem("--scheduler", what, found=scheduler))
    if inputs.settings:
        what = "a scheduler that exists takes no settings; allowed: settings with a name or a class"
        raise InputError(Problem("--set", what, found=", ".join(inputs.settings)))
    return cast(Scheduler, scheduler)
