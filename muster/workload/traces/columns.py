"""The native columns of a trace, what each may hold, and the checks of a whole table at once.

Every format ends here: a reader renames and cleans, `checked` decides. A check is one expression over a
column; only what it refuses is looked at row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf

import polars as pl

from muster.cluster.resources import FURTHER
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.workload.models import Model

LINE = "line of the file"
"""The column beside the cells that says which line of the file a row came from."""

USAGE = ("cpus_used", "memory_gb_used", "gpus_used_low", "gpus_used_high")
"""Columns beside the native ones, of logs that record them: means over the run, except memory, which is the largest
sample. The utilisation that Slurm adds over tasks leaves a range of busy GPUs."""
LOG_COLUMNS = ("node_list", *USAGE)
"""What `muster advise` reads beside the native columns."""
LARGEST_SECONDS = 1e12
MOST_GPUS = 1_000_000


@dataclass(frozen=True)
class Number:
    """A column of numbers."""

    name: str
    low: float
    high: float
    allowed: str
    default: float | None = None
    whole: bool = False
    above_low: bool = False
    """`low` itself is refused."""
    required: bool = False


@dataclass(frozen=True)
class Text:
    """A column of text without control characters."""

    name: str
    pattern: str = ""
    """Regular expression of the whole cell; empty: anything."""
    allowed: str = "text without control characters"
    required: bool = False


@dataclass(frozen=True)
class Truth:
    """A column of yes or no."""

    name: str
    default: bool


Column = Number | Text | Truth

_SECONDS = "a number of seconds from 0 to 1e12"
_WHOLE_GPUS = "a whole number of GPUs from 1 to 1,000,000"
_WHOLE_COUNT = "a whole number from 1 to 1,000,000"


def _work(name: str, unit: str) -> Number:
    return Number(name, 0, LARGEST_SECONDS, f"a number of {unit} above 0, at most 1e12", above_low=True)


COLUMNS: tuple[Column, ...] = (
    Text("job_id", required=True),
    Number("submit_seconds", 0, LARGEST_SECONDS, _SECONDS, required=True),
    Number("gpus", 0, MOST_GPUS, "a whole number of GPUs from 0 to 1,000,000", whole=True, required=True),
    Text("model"),
    _work("iterations", "iterations"),
    _work("duration_seconds", "seconds"),
    _work("gpu_work_seconds", "single-GPU seconds"),
    Number("gpu_milli", 1, 1000, "a whole number of thousandths of a GPU from 1 to 1000", 1000, whole=True),
    Text("tenant"),
    Text("user"),
    Number("priority", -LARGEST_SECONDS, LARGEST_SECONDS, "a number from -1e12 to 1e12", 0),
    Number("cpus", 0, 1e9, "a number of CPU cores above 0", above_low=True),
    Number("memory_gb", 0, 1e9, "a number of GB above 0", above_low=True),
    Number("min_gpus", 1, MOST_GPUS, _WHOLE_GPUS, whole=True),
    Number("max_gpus", 1, MOST_GPUS, _WHOLE_GPUS, whole=True),
    Truth("preemptible", default=True),
    Number("min_runtime_seconds", 0, LARGEST_SECONDS, _SECONDS, 0),
    Number("restart_cost_seconds", 0, LARGEST_SECONDS, _SECONDS),
    Text("constraint", r"^(gpu_type|label)=\S+$", "gpu_type=NAME or label=NAME (several: NAME|NAME)"),
    Number("deadline_seconds", 0, LARGEST_SECONDS, _SECONDS),
    _work("time_limit_seconds", "seconds"),
    Number("nodes", 1, MOST_GPUS, "a whole number of nodes from 1 to 1,000,000", whole=True),
    Text("partition"),
    Text("qos"),
    Number("start_seconds", 0, LARGEST_SECONDS, _SECONDS),
    Number("end_seconds", 0, LARGEST_SECONDS, _SECONDS),
    Number("requeues", 0, MOST_GPUS, "a whole number from 0 to 1,000,000", 0, whole=True),
    Text("exit_code"),
    Text("status"),
    Text("sync", r"^(ps|ring)$", "ps (parameter servers) or ring (all-reduce)"),
    Number("min_workers", 1, MOST_GPUS, _WHOLE_COUNT, whole=True),
    Number("max_workers", 1, MOST_GPUS, _WHOLE_COUNT, whole=True),
    Number("servers", 1, MOST_GPUS, _WHOLE_COUNT, whole=True),
    Number("worker_gpus", 1, MOST_GPUS, _WHOLE_GPUS, whole=True),
    Number("worker_cpus", 0, 1e9, "a number of CPU cores from 0 on"),
    Number("worker_memory_gb", 0, 1e9, "a number of GB from 0 on"),
    Number("server_cpus", 1e-6, 1e9, "a number of CPU cores from 0.000001 on"),
    Number("server_memory_gb", 0, 1e9, "a number of GB from 0 on"),
    Number("nic_gb_per_s", 0, 1e9, "a bandwidth in GB/s above 0", above_low=True),
    Number("batch", 1, 1e9, "a whole number of samples from 1 to 1e9", whole=True),
    Number("max_batch", 1, 1e9, "a whole number of samples from 1 to 1e9", whole=True),
    Number("utility_priority", 0, LARGEST_SECONDS, "a number from 0 to 1e12"),
    Number("utility_urgency_per_hour", 0, LARGEST_SECONDS, "a number from 0 to 1e12", 0),
    Number("utility_target_seconds", 0, LARGEST_SECONDS, _SECONDS),
    Number("target_loss", 0, LARGEST_SECONDS, "a loss above 0", above_low=True),
    Number("loss_slope", 0, LARGEST_SECONDS, "a number above 0", above_low=True),
    Number("loss_offset", 0, LARGEST_SECONDS, "a number above 0", above_low=True),
    Number("loss_floor", 0, LARGEST_SECONDS, "a number from 0 on", 0),
    *(
        Number(
            one.name,
            0,
            1e9,
            f"a {'' if one.divisible else 'whole '}number of {one.unit} above 0",
            whole=not one.divisible,
            above_low=True,
        )
        for one in FURTHER
    ),
)
"""All native columns in their order; this table is what `docs/reference/traces.md` explains."""

WORK = ("iterations", "duration_seconds", "gpu_work_seconds")
"""What a job has left to do, said in exactly one of three ways."""

TARGET_LOSS = "target_loss"
"""Instead of `iterations`: they follow from it."""

SIZED_NEEDS = {
    "ps": ("worker_gpus", "servers", "server_cpus", "nic_gb_per_s", "batch", "model"),
    "ring": ("worker_gpus", "batch", "model"),
}
"""Columns without which the speed of a job of this `sync` is not known for every number of workers and servers."""

for _name, _count in Counter(column.name for column in COLUMNS).items():
    if _count > 1:
        raise InputError(
            Problem("muster.resources", "a trace has a column of this name", column="name", found=_name)
        )

NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)

_TRUE = ("true", "yes", "1", "1.0")
_FALSE = ("false", "no", "0", "0.0")


def dtype_of(column: Column) -> pl.DataType:
    """The type of a column in a `Trace`."""
    if isinstance(column, Text):
        return pl.String()
    if isinstance(column, Truth):
        return pl.Boolean()
    return pl.Int64() if column.whole else pl.Float64()


def default_of(column: Column) -> str | float | bool | None:
    """What a column holds where a file says nothing; None is null."""
    return "" if isinstance(column, Text) else column.default


@dataclass
class Checks:
    """Collects what is wrong with the cells of one file."""

    where: str
    lines: pl.Series
    names: Mapping[str, str] = field(default_factory=dict)
    """For a native column the name it has in the file, where another."""
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, bad: pl.Series, column: str, cells: pl.Series | None, what: str) -> None:
        """One problem for every row where `bad` is true."""
        name = self.names.get(column, column)
        for row in bad.fill_null(value=False).arg_true():
            found = None if cells is None else _shown(cells[row])
            self.problems.append(Problem(self.where, what, int(self.lines[row]), name, found))

    def refuse_file(self, what: str, column: str | None = None) -> None:
        """One problem of the whole file or a whole column."""
        name = None if column is None else self.names.get(column, column)
        self.problems.append(Problem(self.where, what, column=name))

    def plain(self, cells: pl.Series, column: str, allowed: str, *, truth: bool = True) -> bool:
        """Whether the cells are text or numbers (or, with `truth`, true and false); if not, refuses them."""
        types = (pl.String, pl.Null, pl.Boolean) if truth else (pl.String, pl.Null)
        if cells.dtype.is_numeric() or cells.dtype in types:
            return True
        name = {pl.Boolean: "true and false", pl.Datetime: "date-times"}.get(cells.dtype.base_type())
        self.refuse_file(f"holds {name or f'{cells.dtype} values'}; allowed: {allowed}", column)
        return False

    def number(self, cells: pl.Series, rule: Number) -> pl.Series:
        """The column as floats: null where the cell is empty or was refused."""
        if not self.plain(cells, rule.name, rule.allowed, truth=False):
            return pl.repeat(None, len(cells), dtype=pl.Float64, eager=True)
        values = cells.cast(pl.Float64, strict=False)
        fits = values.is_between(rule.low, rule.high, closed="right" if rule.above_low else "both")
        if rule.whole:
            fits &= values == values.floor()
        # An empty cell is null in both; a cell that is no number is null in `values` alone.
        fits = fits.fill_null(value=False)
        self.refuse(~fits & cells.is_not_null(), rule.name, cells, f"allowed: {rule.allowed}")
        return values.zip_with(fits, pl.repeat(None, len(values), dtype=pl.Float64, eager=True))

    def raise_if_any(self) -> None:
        """Refuses the file if anything was wrong, in the order of its lines."""
        if self.problems:
            raise InputError(*sorted(self.problems, key=lambda problem: problem.row or 0))


def checked(frame: pl.DataFrame, checks: Checks, models: Mapping[str, Model]) -> pl.DataFrame:
    """All native columns with their types and defaults, then the frame's others; or every problem at once.

    `frame` holds native columns, typed or as text. `models`: those whose seconds an iteration are known, by
    lower-case names.
    """
    _check_names(frame, checks)
    native = pl.DataFrame({column.name: _native(column, frame, checks) for column in COLUMNS})
    if TARGET_LOSS in frame.columns:
        native = _with_iterations_to_loss(
            native, checks, alone=not any(name in frame.columns for name in WORK)
        )
    _check_together(native, checks, models)
    checks.raise_if_any()
    others = [name for name in frame.columns if name not in NAMES and name != LINE]
    return native.with_columns(frame[name] for name in others)


def _check_names(frame: pl.DataFrame, checks: Checks) -> None:
    present = [name for name in frame.columns if name != LINE]
    for column in COLUMNS:
        if not isinstance(column, Truth) and column.required and column.name not in present:
            others = [name for name in present if name not in NAMES]
            near = get_close_matches(column.name, others, n=1, cutoff=0.5)
            hint = f" (is it {near[0]}?)" if near else ""
            what = f"is missing; rename a column or map one{hint}; found: {', '.join(present)}"
            checks.refuse_file(what, column.name)
    work = [name for name in WORK if name in present]
    if not work and TARGET_LOSS not in present:
        checks.refuse_file(
            f"no column says how much work a job is; allowed: exactly one of {', '.join((*WORK, TARGET_LOSS))}"
        )
    elif len(work) > 1:
        checks.refuse_file(f"both {' and '.join(work)} say how much work a job is; keep exactly one")


def _native(column: Column, frame: pl.DataFrame, checks: Checks) -> pl.Series:
    """One native column, read and checked; its defaults where the file says nothing."""
    cells = frame[column.name] if column.name in frame.columns else None
    default = default_of(column)
    if cells is None:
        return pl.repeat(default, frame.height, dtype=dtype_of(column), eager=True).alias(column.name)
    if cells.dtype == pl.String:
        cells = cells.replace("", None)
    if not isinstance(column, Truth) and (column.name in WORK or column.required):
        checks.refuse(cells.is_null(), column.name, None, f"is empty; allowed: {column.allowed}")
    if isinstance(column, Number):
        values = checks.number(cells, column).cast(dtype_of(column))
        return values if default is None else values.fill_null(default)
    if isinstance(column, Truth):
        return _truth(column, cells, checks)
    return _text(column, cells, checks)


def _with_iterations_to_loss(native: pl.DataFrame, checks: Checks, *, alone: bool) -> pl.DataFrame:
    """Jobs given by a loss to reach, with the iterations after which their curve 1/(slope k + offset) + floor does.

    `alone`: no other column says how much work there is.
    """
    target = native[TARGET_LOSS]
    if alone:
        checks.refuse(target.is_null(), TARGET_LOSS, None, "is empty; allowed: a loss above 0")
    else:
        what = f"{', '.join(WORK)} or {TARGET_LOSS} say how much work a job is; keep exactly one"
        checks.refuse(target.is_not_null(), TARGET_LOSS, target, what)
    for name in ("loss_slope", "loss_offset"):
        missing = target.is_not_null() & native[name].is_null()
        checks.refuse(missing, name, None, "is empty; a job with target_loss needs its loss curve")
    slope, offset, floor = (native[f"loss_{name}"] for name in ("slope", "offset", "floor"))
    checks.refuse(
        target <= floor, TARGET_LOSS, target, "the loss curve never gets there: it is not above loss_floor"
    )
    reached = target >= 1 / offset + floor
    checks.refuse(reached, TARGET_LOSS, target, "the loss curve begins there: it is not below the first loss")
    needed = ((1 / (target - floor) - offset) / slope).ceil()
    sensible = (needed >= 1) & (needed <= LARGEST_SECONDS)
    checks.refuse(
        ~sensible & (target > floor) & ~reached,
        TARGET_LOSS,
        target,
        "takes more than 1e12 iterations on this curve",
    )
    iterations = native["iterations"].fill_null(needed.set(~sensible.fill_null(value=False), None))
    return native.with_columns(iterations.alias("iterations"))


def _truth(column: Truth, cells: pl.Series, checks: Checks) -> pl.Series:
    allowed = "true or false"
    if not checks.plain(cells, column.name, allowed):
        return pl.repeat(column.default, len(cells), dtype=pl.Boolean, eager=True)
    words = cells.cast(pl.String).str.to_lowercase()
    values = words.is_in(_TRUE)
    bad = ~(values | words.is_in(_FALSE))
    checks.refuse(bad, column.name, cells, f"allowed: {allowed}")
    return values.fill_null(column.default)


def _text(column: Text, cells: pl.Series, checks: Checks) -> pl.Series:
    if not checks.plain(cells, column.name, column.allowed):
        return pl.repeat("", len(cells), dtype=pl.String, eager=True)
    values = cells.cast(pl.String)
    bad = values.str.contains(r"\p{Cc}")
    if column.pattern:
        bad |= ~values.str.contains(column.pattern)
    checks.refuse(bad, column.name, cells, f"allowed: {column.allowed}")
    return values.fill_null("")


def _check_together(native: pl.DataFrame, checks: Checks, models: Mapping[str, Model]) -> None:
    """What one column says about another."""
    ids = native["job_id"]
    checks.refuse(
        ids.is_duplicated() & ~ids.is_first_distinct() & (ids != ""),
        "job_id",
        ids,
        "is a second job of this id",
    )
    gpus = native["gpus"]
    shared = (native["gpu_milli"] < 1000) & (gpus != 1)
    checks.refuse(
        shared, "gpu_milli", native["gpu_milli"], "only a job with gpus = 1 may ask a share of a GPU"
    )
    least, most = native["min_gpus"], native["max_gpus"]
    checks.refuse(least > gpus, "min_gpus", least, "is above gpus; allowed: at most as many")
    checks.refuse(most < gpus, "max_gpus", most, "is below gpus; allowed: at least as many")
    without = gpus == 0
    checks.refuse(without & native["cpus"].is_null(), "cpus", None, "is empty; a job with gpus = 0 needs it")
    for name in ("min_gpus", "max_gpus", "gpu_work_seconds", "max_batch"):
        stated = without & native[name].is_not_null()
        checks.refuse(stated, name, native[name], "is stated for a job with gpus = 0; leave it empty")
    for name in ("model", "sync"):
        stated = without & (native[name] != "")
        checks.refuse(stated, name, native[name], "is stated for a job with gpus = 0; leave it empty")
    nodes = native["nodes"]
    checks.refuse((nodes > gpus) & ~without, "nodes", nodes, "is above gpus; allowed: at most as many")
    early = native["start_seconds"] < native["submit_seconds"]
    checks.refuse(early, "start_seconds", native["start_seconds"], "lies before submit_seconds")
    ends = native["end_seconds"] < native["start_seconds"]
    checks.refuse(ends, "end_seconds", native["end_seconds"], "lies before start_seconds")
    late = native["deadline_seconds"] < native["submit_seconds"]
    checks.refuse(late, "deadline_seconds", native["deadline_seconds"], "lies before submit_seconds")
    _check_sized(native, checks)
    _check_batches(native, checks, models)
    rigid = native["sync"] == ""
    unknown = rigid & native["iterations"].is_not_null() & ~native["model"].str.to_lowercase().is_in(models)
    names = native["model"].filter(unknown).unique().to_list()
    what = (
        "iterations need a model whose seconds an iteration are known; "
        f"known: {', '.join(models) or 'none'}; describe yours as in docs/reference/models.md, or give duration_seconds"
    )
    hint = did_you_mean(names[0], models) if len(names) == 1 else ""
    checks.refuse(unknown, "model", native["model"], with_hint(what, hint))


def _check_sized(native: pl.DataFrame, checks: Checks) -> None:
    """What jobs with parameter servers or a ring must say besides, and what the others cannot mean."""
    sync, gpus, each = native["sync"], native["gpus"], native["worker_gpus"]
    for kind, needs in SIZED_NEEDS.items():
        for name in needs:
            missing = (sync == kind) & (native[name].is_null() | (native[name].cast(pl.String) == ""))
            checks.refuse(missing, name, None, f"is empty; a job with sync = {kind} needs it")
    sized = sync != ""
    checks.refuse(
        sized & native["iterations"].is_null(),
        "iterations",
        None,
        "a job with sync says its work in iterations, or as a target_loss",
    )
    for name in ("min_gpus", "max_gpus"):
        what = "a job with sync says min_workers and max_workers instead"
        checks.refuse(sized & native[name].is_not_null(), name, native[name], what)
    checks.refuse(sized & (gpus % each != 0), "gpus", gpus, "allowed: whole workers of worker_gpus each")
    workers = gpus // each
    least, most = native["min_workers"], native["max_workers"]
    checks.refuse(sized & (least > workers), "min_workers", least, "is above the workers that gpus are")
    checks.refuse(sized & (most < workers), "max_workers", most, "is below the workers that gpus are")
    rated = native["utility_priority"].is_not_null()
    checks.refuse(
        rated & native["utility_target_seconds"].is_null(),
        "utility_target_seconds",
        None,
        "is empty; a utility needs its target",
    )


def _check_batches(native: pl.DataFrame, checks: Checks, models: Mapping[str, Model]) -> None:
    """What a job whose total batch may grow must say besides."""
    most = native["max_batch"]
    if most.is_null().all():
        return
    stated = most.is_not_null() & (native["gpus"] > 0)
    checks.refuse(
        stated & (native["sync"] != ""), "max_batch", most, "a job with sync has the batch that it states"
    )
    shared = stated & (native["gpu_milli"] < 1000)
    checks.refuse(
        shared, "max_batch", most, "only a job with whole GPUs may have another batch; leave it empty"
    )
    initial = {name: model.batch for name, model in models.items() if model.efficiency is not None}
    names = native["model"].str.to_lowercase()
    unknown = ", ".join(initial) or "none"
    checks.refuse(
        stated & ~names.is_in(list(initial)),
        "model",
        native["model"],
        f"max_batch needs a model whose noise scale is known; known: {unknown}; state that of yours in [efficiency] "
        "(docs/reference/models.md)",
    )
    each = names.replace_strict(initial, default=None, return_dtype=pl.Int64)
    least = "is below the initial batch; allowed: at least gpus times the batch of the model"
    checks.refuse(stated & (most < native["gpus"] * each), "max_batch", most, least)


def _shown(value: object) -> object:
    """A cell as a message shows it."""
    if isinstance(value, str) and len(value) > 60:
        return value[:59] + "…"
    if isinstance(value, float) and abs(value) < inf and value == int(value):
        return int(value)
    return value
