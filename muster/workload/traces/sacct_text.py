"""`sacct -P`: a header and one line a job or job step, separated by bars."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from muster.formatting import counted
from muster.workload.traces import slurm_states
from muster.workload.traces.cleaning import Cells, Reading
from muster.workload.traces.columns import USAGE
from muster.workload.traces.content import Content, TraceTable
from muster.workload.traces.sacct_usage import GB_PER_UNIT, usage
from muster.workload.traces.times import clock_seconds

_NAMES = {
    "job_id": "jobid",
    "user": "user",
    "tenant": "account",
    "status": "state",
    "submit_seconds": "submit",
}
_TRES = ("reqtres", "alloctres")
_GRES = ("reqgres", "allocgres")
_LENGTH = ("elapsedraw", "elapsed", "end")
_PARTS = "parts of GPUs"
_NEGATIVE = "INVALID"
"""What Slurm writes for a time below 0, as where a clock was set back."""
_HOUR_SECONDS = 3600.0
_NO_LIMIT = ("unlimited", "infinite", "partition_limit", "partition limit", "invalid")
"""What Slurm writes, in lower case, where a job has no limit of its own."""
_GPUS = r"(?i),(?:gres[:/])?gpus?(?:[:=(][^,]*)?,"
"""One amount, between commas, that is one of GPUs, however it is written."""
_TRES_AMOUNT = r",[^=,]+=-?\d[^=,]*,"
_TRES_GPUS = r",gres/gpu(?::[^=,]+)?=\d+,"
_GRES_GPUS = r",(?:gres[:/])?gpu(?:[:=][^:=,(]*[A-Za-z_][^:=,(]*)?(?:[:=]\d+)?,"
_GRES_PART = r",(?:gres[:/])?gpu[:=][\d.]+[KMGTP],"
"""Which looks as a type of GPU does."""
_MEMORY = r"^([\d.]+)([KMGTP]?)([cn]?)$"


def recognise(content: Content) -> bool:
    """Ids, submission, length and generic resources, whatever else is there and in whatever case."""
    if not isinstance(content, TraceTable):
        return False
    header = {name.lower() for name in content.header}
    has_size = bool(header & {*_TRES, *_GRES})
    return {"jobid", "submit"} <= header and has_size and bool(header & set(_LENGTH))


def read(content: Content) -> Reading:
    """One row a job: steps go; GPUs, CPUs and memory come from what was requested, else allocated."""
    assert isinstance(content, TraceTable)
    table, headers = _without_repeated_headers(content)
    cells = Cells(table, {**_NAMES, "gpus": "reqtres"})
    have = set(table.header)
    none = pl.repeat(None, table.cells.height, dtype=pl.Float64, eager=True)
    empty = pl.repeat("", table.cells.height, dtype=pl.String, eager=True)

    def text(name: str) -> pl.Series:
        return cells.text(name) if name in have else empty

    def numbers(name: str) -> pl.Series:
        return cells.numbers(name) if name in have else none

    start = cells.times("start") if "start" in have else none
    end = cells.times("end") if "end" in have else none
    duration = _elapsed(cells, have).fill_null(_between(start, end))
    _refuse_odd_amounts(cells, have)
    counts = _counts(cells, have, none)
    resources = _resources({name: text(name) for name in (*_TRES, *_GRES, "reqmem")}, counts)
    used = usage(table.cells, resources["gpus"], duration)
    end = end.zip_with((end >= start).fill_null(value=True), start + duration)
    columns = {
        "job_id": cells.text("job_id"),
        "submit_seconds": cells.times("submit_seconds"),
        "duration_seconds": duration,
        # Without the column a start is taken for granted; the elapsed time says the rest.
        "started": start.is_not_null() if "start" in have else start.is_null(),
        "start_seconds": start,
        "end_seconds": end,
        "time_limit_seconds": _limit(cells, have, none),
        "nodes": counts["node"],
        "priority": numbers("priority").fill_null(0.0),
        "requeues": numbers("restarts").fill_null(0.0),
        "partition": text("partition"),
        "qos": text("qos"),
        "exit_code": text("exitcode"),
        "status": _states(cells, text("state")),
        "tenant": text("account"),
        "user": text("user"),
        **resources,
        _PARTS: _has_parts(text) & (resources["gpus"].fill_null(0) == 0),
        **{name: used[name] for name in USAGE if used[name].is_not_null().any()},
        **({"node_list": text("nodelist")} if "nodelist" in have else {}),
    }
    reading = cells.reading(columns)
    if headers:
        reading.notes.append(f"passed over {counted(headers, 'repeated header')}, as of joined files")
    reading.drop(pl.col("job_id").str.contains(r"^[^\[]*\."), "steps of jobs")
    reading.drop(pl.col("submit_seconds").is_null(), "no submission time")
    _note_parts_of_gpus(reading)
    return reading


def _without_repeated_headers(content: TraceTable) -> tuple[TraceTable, int]:
    """The table, names of columns in lower case, and how often its header stood among its lines."""
    cells = content.cells.rename(str.lower)
    repeated = (cells["jobid"].cast(pl.String).str.to_lowercase() == "jobid").fill_null(value=False)
    table = TraceTable(content.where, cells.filter(~repeated), content.lines.filter(~repeated))
    return table, int(repeated.sum())


def _note_parts_of_gpus(reading: Reading) -> None:
    """Jobs with a part of a GPU hold no whole one, and no log says which GPU they share."""
    parts = int(reading.frame[_PARTS].sum())
    if parts:
        jobs = counted(parts, "job")
        reading.notes.append(
            f"{jobs} with parts of GPUs alone (gres/shard or gres/mps): counted as without a GPU"
        )
    reading.frame = reading.frame.drop(_PARTS)


def _has_parts(text: Callable[[str], pl.Series]) -> pl.Series:
    """Whether a job has shards of GPUs or a share by MPS."""
    said = pl.DataFrame([text(name).alias(name) for name in (*_TRES, *_GRES)])
    written = said.select(pl.concat_str(pl.all(), separator=","))
    return written.to_series().str.contains(r"(?:^|[,/])(?:shard|mps)[:=]")


def _between(start: pl.Series, end: pl.Series) -> pl.Series:
    """Seconds from start to end. Local time goes back an hour once a year, and so may an end."""
    seconds = end - start
    back = (seconds < 0) & (seconds + _HOUR_SECONDS > 0)
    return seconds.zip_with(~back.fill_null(value=False), seconds + _HOUR_SECONDS)


def _elapsed(cells: Cells, have: set[str]) -> pl.Series:
    """Seconds a job ran, suspension apart: `ElapsedRaw`, else `Elapsed`, else nothing."""
    for name in ("elapsedraw", "elapsed"):
        if name in have:
            raw = cells.raw(name)
            raw = raw.set(raw == _NEGATIVE, None) if raw.dtype == pl.String else raw
            seconds = clock_seconds(raw)
            bad = seconds.is_null() & raw.is_not_null()
            cells.checks.refuse(bad, name, raw, "allowed: a time such as 1-02:03:04")
            return seconds
    return pl.repeat(None, cells.table.cells.height, dtype=pl.Float64, eager=True)


def _limit(cells: Cells, have: set[str], none: pl.Series) -> pl.Series:
    """Seconds that a job may run; null where there is no limit. `TimelimitRaw` counts minutes."""
    name = next((name for name in ("timelimitraw", "timelimit") if name in have), None)
    if name is None:
        return none
    raw = cells.raw(name)
    if raw.dtype == pl.String:
        raw = raw.set(raw.str.to_lowercase().is_in(_NO_LIMIT).fill_null(value=False), None)
    minutes = name == "timelimitraw"
    seconds = raw.cast(pl.Float64, strict=False) * 60 if minutes else clock_seconds(raw)
    bad = (seconds.is_null() & raw.is_not_null()) | (seconds < 0).fill_null(value=False)
    unit = "a number of minutes" if minutes else "a time such as 1-02:03:04"
    cells.checks.refuse(bad, name, raw, f"allowed: {unit}, UNLIMITED or Partition_Limit")
    return seconds.set(seconds <= 0, None)


def _counts(cells: Cells, have: set[str], none: pl.Series) -> dict[str, pl.Series]:
    """CPUs and nodes of a job, by the first column that says them."""
    counts = {}
    for resource, names in {"cpu": ("reqcpus", "alloccpus", "ncpus"), "node": ("reqnodes", "nnodes")}.items():
        name = next((name for name in names if name in have), None)
        counts[resource] = none if name is None else cells.numbers(name)
    return counts


def _resources(texts: dict[str, pl.Series], counts: dict[str, pl.Series]) -> dict[str, pl.Series]:
    """GPUs, their type, CPU cores and GB, each from the first text that says it."""
    frame = pl.DataFrame({**texts, **counts})
    cpus = pl.coalesce(*(_tres_number(name, "cpu") for name in _TRES), pl.col("cpu"))
    memory = pl.col("reqmem").str.extract_groups(_MEMORY).struct
    # Before 21.08 `ReqMem` ends in c or n: a CPU's or a node's share.
    shares = (
        pl.when(memory.field("3") == "c")
        .then(cpus)
        .when(memory.field("3") == "n")
        .then("node")
        .otherwise(1.0)
    )
    old_memory = _gb(memory.field("1"), memory.field("2")) * shares
    old_gpus = [_gres_gpus("reqgres") * pl.col("node").fill_null(1.0), _gres_gpus("allocgres")]
    # A job that asks for GPUs of any type got some type, and may run on another one.
    unasked = _tres_gpus("reqtres").is_null() & _gres_gpus("reqgres").is_null()
    got_type = pl.when(unasked).then(pl.coalesce(_gpu_type("alloctres"), _gpu_type("allocgres")))
    found = frame.select(
        gpus=pl.coalesce(*(_tres_gpus(name) for name in _TRES), *old_gpus),
        gpu_type=pl.coalesce(_gpu_type("reqtres"), _gpu_type("reqgres"), got_type, pl.lit("")),
        cpus=cpus,
        memory_gb=pl.coalesce(*(_tres_memory(name) for name in _TRES), old_memory),
    )
    return found.to_dict()


def _states(cells: Cells, written: pl.Series) -> pl.Series:
    """The states of jobs and steps; a word that is none is refused, as nothing says whether such a job has ended."""
    known = {text: slurm_states.full_state(text) for text in written.unique().to_list()}
    states = written.replace_strict(known, return_dtype=pl.String)
    cells.checks.refuse(states.is_null(), "status", written, slurm_states.ALLOWED)
    return states


def _refuse_odd_amounts(cells: Cells, have: set[str]) -> None:
    """Refuse amounts that cannot be read, and CPUs and GPUs that are no whole numbers, as `gres/gpu=1.5K`.

    Part of such an amount would be read, or none: a job of which no GPU is read is left out.
    """
    for name in _TRES:
        if name in have:
            raw, counts = _between_commas(cells, name)
            odd = counts(_TRES_AMOUNT) != counts(r",[^,]+,")
            odd |= counts(",cpu=") != counts(r",cpu=\d+,")
            odd |= counts(_GPUS) != counts(_TRES_GPUS)
            what = "allowed: whole numbers of cpu and gres/gpu, as cpu=8,gres/gpu:a100=4,mem=64G,node=1"
            cells.checks.refuse(odd, name, raw, what)
    for name in _GRES:
        if name in have:
            raw, counts = _between_commas(cells, name)
            odd = counts(_GPUS) != counts(_GRES_GPUS) - counts(_GRES_PART)
            cells.checks.refuse(odd, name, raw, "allowed: whole numbers of gpu, as gpu:4 or gpu:a100:4")


def _between_commas(cells: Cells, name: str) -> tuple[pl.Series, Callable[[str], pl.Series]]:
    """The cells of a column, and what counts the amounts of each that match; each has its own comma on both sides."""
    raw = cells.text(name)
    parts = raw.str.replace_all(r"\([^)]*\)", "").str.replace_all(",", ",,", literal=True)
    return raw, ("," + parts + ",").str.count_matches


def _tres_number(column: str, resource: str) -> pl.Expr:
    return pl.col(column).str.extract(rf"(?:^|,){resource}=(\d+)").cast(pl.Float64, strict=False)


def _tres_gpus(column: str) -> pl.Expr:
    """`gres/gpu=4`; where only types are counted, their sum: `gres/gpu:v100=2,gres/gpu:a100=2`."""
    typed = pl.col(column).str.extract_all(r"gres/gpu:[^=,]+=\d+").list
    counted = typed.eval(pl.element().str.extract(r"=(\d+)$").cast(pl.Float64, strict=False)).list.sum()
    return pl.coalesce(_tres_number(column, "gres/gpu"), pl.when(typed.len() > 0).then(counted))


def _gres_gpus(column: str) -> pl.Expr:
    """`gpu:4` or `gpu:v100:4`, and `gpu` alone for one; of several types the sum (before 20.11)."""
    amounts = pl.col(column).str.replace_all(r"\([^)]*\)", "").str.split(",").list
    gpus = amounts.eval(pl.element().filter(pl.element().str.contains(r"^(?:gres[:/])?gpu(?:[:=]|$)"))).list
    number = pl.element().str.extract(r"[:=](\d+)$").cast(pl.Float64, strict=False).fill_null(1.0)
    return pl.when(gpus.len() > 0).then(gpus.eval(number).list.sum())


def _gpu_type(column: str) -> pl.Expr:
    """The type where exactly one is named."""
    names = pl.col(column).str.extract_all(r"gpu:[^=:,()]*[^=:,()\d][^=:,()]*").list.unique()
    return pl.when(names.list.len() == 1).then(names.list.first().str.strip_prefix("gpu:"))


def _tres_memory(column: str) -> pl.Expr:
    memory = pl.col(column).str.extract_groups(r"(?:^|,)mem=([\d.]+)([KMGTP]?)").struct
    return _gb(memory.field("1"), memory.field("2"))


def _gb(amount: pl.Expr, unit: pl.Expr) -> pl.Expr:
    return amount.cast(pl.Float64, strict=False) * unit.replace_strict(
        GB_PER_UNIT, default=None, return_dtype=pl.Float64
    )
