"""Slurm's accounting: `sacct -P` (or `--parsable`) with a header, and `sacct --json`; versions 17 to 25."""

from __future__ import annotations

import re

import polars as pl

from muster.formatting import counted
from muster.workload.traces import sacct_json, sacct_text, slurm_states
from muster.workload.traces.cleaning import Reading
from muster.workload.traces.columns import LINE, USAGE
from muster.workload.traces.content import Content, Document

OPEN = "open"
"""The column of `read_all` that says whether a job waits or runs when the log ends; an earlier run of it does not."""
_OF_A_QUEUE = ("State", "Start", "End")
_ARRAY = r"^(?<array>\d+)_\[(?<tasks>[^\]%]+)(?:%(?<most>\d+))?\]$"
_PART = r"^(\d+)\+\d+$"
_ADDED = ("gpus", "cpus", "memory_gb", "nodes", *USAGE)

EXPECTED = (
    "the output of sacct --json, or of sacct -P "
    "--format=JobID,User,Account,Partition,QOS,Priority,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,NNodes,"
    "NodeList,Restarts,ReqTRES,AllocTRES,TotalCPU,MaxRSS,TRESUsageInTot,TRESUsageInAve"
)


def recognise(content: Content) -> bool:
    """A JSON document of Slurm's accounting, or a header with its columns."""
    if isinstance(content, Document):
        return sacct_json.recognise(content)
    return sacct_text.recognise(content)


def read_all(content: Content) -> Reading:
    """Every job of the log: also those that wait or run when it ends, and those without a GPU."""
    reading = sacct_json.read(content) if isinstance(content, Document) else sacct_text.read(content)
    _join_parts(reading)
    goes_on = reading.frame["status"].str.contains(slurm_states.OPEN) & _is_last_run(reading.frame)
    reading.frame = reading.frame.with_columns(goes_on.alias(OPEN))
    return reading


def read(content: Content) -> Reading:
    """Accounts become tenants; what did not end, never started or asked for no GPU is left out."""
    reading = read_all(content)
    reading.drop_without_gpus()
    earlier = pl.col("status").str.contains(slurm_states.OPEN) & ~pl.col(OPEN)
    reading.drop(earlier, "an earlier run of a requeued job")
    reading.drop(pl.col("status").str.contains(slurm_states.OPEN), "not finished when the log was written")
    reading.frame = reading.frame.drop(OPEN)
    reading.drop(
        ~pl.col("started") & (pl.col("duration_seconds").fill_null(0) == 0),
        "never started (cancelled while waiting)",
    )
    reading.drop(pl.col("duration_seconds").is_null(), "no elapsed time")
    reading.drop(~pl.lit(_is_last_run(reading.frame)), "requeued: the last run counts")
    reading.require_gpu_type("gpu_type")
    reading.frame = reading.frame.drop("gpu_type", "started")
    reading.only_positive("cpus", "memory_gb")
    reading.order_moments()
    reading.possible_nodes()
    reading.clamp_durations()
    reading.clamp_limits()
    reading.start_at_zero()
    return reading


def _is_last_run(frame: pl.DataFrame) -> pl.Series:
    """Which rows are the last run of their job: the one that waits, else that which started last, else the last row."""
    by_start = frame.with_row_index("row").sort("start_seconds", nulls_last=True, maintain_order=True)
    last = by_start.unique("job_id", keep="last")["row"]
    return pl.Series(range(frame.height), dtype=last.dtype).is_in(last.implode())


def lacks_of_a_queue(content: Content) -> tuple[str, ...]:
    """The columns without which nothing says which jobs wait or run, or what those that wait ask for."""
    if isinstance(content, Document):
        return ()
    have = {name.lower() for name in content.header}
    lacks = [name for name in _OF_A_QUEUE if name.lower() not in have]
    return tuple(lacks if have & {"reqtres", "reqgres"} else [*lacks, "ReqTRES"])


def each_task(reading: Reading) -> None:
    """Make a row of each task of the arrays that wait, which Slurm writes in one: `12_[1-3,7%2]`."""
    arrays = reading.frame["job_id"].str.extract_groups(_ARRAY).struct.unnest()
    tasks = [None if one is None else _tasks(one) for one in arrays["tasks"].to_list()]
    written = [one for one in tasks if one is not None]
    if not written:
        return
    short = arrays["tasks"].str.contains("...", literal=True).sum()
    if short:
        hint = "Hint: set SLURM_BITSTR_LEN=0 for sacct, which then writes all of them"
        reading.notes.append(f"{counted(int(short), 'array')} with more tasks than written. {hint}")
    if int(arrays["most"].is_not_null().sum()):
        reading.notes.append("how many tasks of an array may run at a time (%) is not simulated")
    task = pl.col("task").cast(pl.String)
    number = pl.concat_str("array", pl.lit("_"), task)
    rows = reading.frame.with_columns(pl.Series("task", tasks, pl.List(pl.Int64)), arrays["array"]).explode(
        "task"
    )
    reading.frame = rows.with_columns(
        pl.when(pl.col("task").is_not_null()).then(number).otherwise("job_id").alias("job_id")
    ).drop("task", "array")


def _tasks(text: str) -> list[int]:
    """The numbers that `0-9:4,12` stands for; what Slurm leaves out of a long list is not known."""
    numbers: list[int] = []
    for first, last, step in re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", text):
        numbers += range(int(first), int(last or first) + 1, max(int(step or 1), 1))
    return numbers


def _join_parts(reading: Reading) -> None:
    """Make the parts of a heterogeneous job (`12+0`) one job: amounts are added, the first part has the rest."""
    frame = reading.frame
    if not frame["job_id"].str.contains(_PART).any():
        return
    whole = pl.coalesce(pl.col("job_id").str.extract(_PART), "job_id")
    is_part = pl.col("job_id").str.contains(_PART)
    parts = frame.filter(is_part).with_columns(whole.alias("job_id"))
    amounts = [
        pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
        for name in _ADDED
        if name in frame.columns
    ]
    texts = [pl.col("node_list").str.join(",")] if "node_list" in frame.columns else []
    types = pl.col("gpu_type").filter(pl.col("gpus") > 0)
    one_type = pl.when(types.n_unique() == 1).then(types.first()).otherwise(pl.lit(""))
    given = {"job_id", "submit_seconds", "gpu_type", "node_list", *_ADDED}
    rest = [pl.col(name).first() for name in frame.columns if name not in given]
    joined = parts.group_by("job_id", "submit_seconds", maintain_order=True).agg(
        *amounts, *texts, one_type.alias("gpu_type"), *rest
    )
    reading.notes.append(f"joined {parts.height:,} parts of {counted(joined.height, 'heterogeneous job')}")
    reading.frame = pl.concat([frame.filter(~is_part), joined.select(frame.columns)]).sort(LINE)
