"""Foreign formats: hand-made samples with known results, and the errors of files that do not fit."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from muster.problems import InputError
from muster.workload.trace import Trace, read_trace
from muster.workload.traces.columns import USAGE
from muster.workload.traces.mapped import parse_mapping
from muster.workload.traces.openb_nodes import read_nodes
from tests.workload import samples


def read(folder: Path, text: str, **how: Any) -> Trace:
    path = folder / "log"
    path.write_text(text)
    return read_trace(path, **how)


def columns(trace: Trace, *names: str) -> list[tuple[Any, ...]]:
    return trace.jobs.select(names).rows()


SHAPE = ("job_id", "submit_seconds", "gpus", "duration_seconds", "tenant")


def test_philly_with_sizes_keeps_its_own_zero(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.PHILLY_SIZES)
    assert columns(trace, *SHAPE) == [
        ("0", 100.0, 1, 3600.0, ""),
        ("1", 250.0, 16, 1.0, ""),
        ("2", 300.5, 1, 12.5, ""),
    ]
    assert trace.notes == ("set 1 duration of 0 s to 1 s",)


def test_philly_with_tenants_starts_at_its_first_submission(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.PHILLY_TENANTS)
    assert columns(trace, *SHAPE) == [
        ("0", 2932.0, 1, 66.0, "vc-a"),
        ("1", 0.0, 2, 2951.0, "vc-b"),
        ("2", 86_400.0, 4, 5.0, "vc-a"),
    ]
    assert trace.notes == ("dropped 1 of 4 rows: the same as an earlier row in every cell",)


def test_philly_log_adds_up_attempts_and_says_what_it_left_out(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.PHILLY_LOG)
    assert columns(trace, *SHAPE, "user", "status") == [
        ("twice", 2.0, 16, 90.0, "vc-a", "u1", "Pass"),
        ("first", 0.0, 1, 1.0, "vc-a", "u1", "Pass"),
    ]
    assert columns(trace, "start_seconds", "end_seconds") == [(60.0, 3330.0), (10.0, 10.0)]
    assert trace.notes == (
        "dropped 1 of 6 rows: no submission time",
        "dropped 1 of 5 rows: never started",
        "dropped 1 of 4 rows: still running when the log ends, or without an end",
        "dropped 1 of 3 rows: no GPU asked for",
        "start of the first attempt and end of the last for 1 job with several: "
        "the history counts the time between them as run",
        "set 1 duration of 0 s to 1 s",
    )


def test_philly_attempts_without_a_start_have_no_moments(tmp_path: Path) -> None:
    """Their ends do not count, and no job starts before it is submitted."""
    day = samples.DAY
    tries = (
        samples.philly_attempt(None, day + "15:00:00", 1),
        samples.philly_attempt(day + "14:04:00", day + "14:05:40", 1),
    )
    log = json.dumps([samples.philly_job("late", day + "14:05:00", *tries)])
    assert columns(read(tmp_path, log), "start_seconds", "end_seconds") == [(0.0, 40.0)]


def test_helios_takes_gpu_jobs_that_ran(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.HELIOS)
    assert columns(trace, *SHAPE, "user", "cpus", "status") == [
        ("11", 10.0, 8, 3600.0, "vcA", "u1", 64.0, "COMPLETED"),
        ("13", 0.0, 1, 1.0, "vcB", "u2", 4.0, "FAILED"),
    ]
    assert columns(trace, "nodes", "start_seconds", "end_seconds") == [(1, 60.0, 3660.0), (1, 60.0, 60.0)]
    assert len(trace.notes) == 4


def test_helios_without_ends_has_them_by_duration(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.HELIOS.replace("end_time", "ended"))
    assert columns(trace, "start_seconds", "end_seconds") == [(60.0, 3660.0), (60.0, 60.0)]


def test_openb_pods_share_gpus_and_ask_for_types(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.OPENB)
    names = (
        "job_id",
        "submit_seconds",
        "gpus",
        "gpu_milli",
        "duration_seconds",
        "cpus",
        "constraint",
        "status",
    )
    assert columns(trace, *names) == [
        ("p0", 10.0, 1, 1000, 850.0, 12.0, "", "Running"),
        ("p1", 0.0, 1, 460, 210.0, 6.0, "gpu_type=V100M16|V100M32", "Succeeded"),
        ("p4", 30.0, 8, 1000, 1.0, 6.0, "gpu_type=T4", "Failed"),
    ]
    assert trace.jobs["memory_gb"].to_list() == [pytest.approx(17.179869184), None, pytest.approx(0.1048576)]
    assert columns(trace, "start_seconds", "end_seconds") == [(60.0, 910.0), (0.0, 210.0), (40.0, 40.0)]


def test_openb_nodes_become_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(samples.OPENB_NODES)
    with pytest.raises(InputError, match="muster convert"):
        read_trace(path)
    cluster = read_nodes(path)
    assert cluster.name == "nodes"
    assert [(node.name, node.gpus, node.gpu_type, node.cpus) for node in cluster.nodes] == [
        ("n0", 2, "P100", 64.0),
        ("n1", 8, "G2", 96.0),
        ("n2", 2, "P100", 64.0),
        ("n3", 0, "GPU", 94.0),
    ]
    assert cluster.nodes[0].memory_gb == pytest.approx(262_144 * 2**20 / 1e9)
    assert cluster.nodes[0].type_name == cluster.nodes[2].type_name != cluster.nodes[1].type_name
    path.write_text(samples.OPENB_NODES.replace("n1,96000", ",x").replace(",2,P100", ",61,P100"))
    with pytest.raises(InputError) as refused:
        read_nodes(path)
    assert [(problem.row, problem.column) for problem in refused.value.problems] == [
        (2, "gpu"),
        (3, "cpu_milli"),
        (3, "sn"),
        (4, "gpu"),
    ]


def test_acme_jobs_last_from_their_start_to_their_end(tmp_path: Path) -> None:
    names = (*SHAPE, "user", "nodes", "cpus", "start_seconds", "end_seconds", "type")
    trace = read(tmp_path, samples.ACME)
    assert columns(trace, *names) == [
        ("11", 10.0, 16, 3600.0, "", "u1", 2, 256.0, 60.0, 3660.0, "Pretrain"),
        ("13", 0.0, 1, 1.0, "", "u2", 1, None, 0.0, 0.0, "Debug"),
    ]
    assert trace.notes == (
        "dropped 1 of 5 rows: no GPU asked for",
        "dropped 1 of 4 rows: not finished when the log ends",
        "dropped 1 of 3 rows: never started",
        "set 1 duration of 0 s to 1 s",
    )


def test_acme_containers_end_by_failure_and_count_memory_a_pod(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.ACME_PODS)
    assert columns(trace, *SHAPE, "nodes", "memory_gb", "start_seconds") == [
        ("dlcx", 58.0, 64, 8.0, "", 8, 8000.0, 68.0),
        ("dlcy", 0.0, 8, 60.0, "", 1, None, 30.0),
    ]
    assert trace.notes == ("dropped 1 of 3 rows: not finished when the log ends",)


def test_kalos_without_an_end_takes_the_wait_out(tmp_path: Path) -> None:
    """Of Seren, which has one kind of end, `duration` begins at the start."""
    log = samples.ACME_PODS.replace(",,2023-05-17 11:01:16+00:00,,18,", ",,,,18,")
    assert columns(read(tmp_path, log), "job_id", "duration_seconds", "start_seconds", "end_seconds") == [
        ("dlcx", 8.0, 68.0, 76.0),
        ("dlcy", 60.0, 30.0, 90.0),
    ]
    seren = samples.ACME.replace(",2023-03-01 09:01:00+08:00,3600", ",,3600")
    assert columns(read(tmp_path, seren), "job_id", "duration_seconds")[0] == ("11", 3600.0)


def test_spot_gpu_requests_are_those_of_one_worker(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.SPOT_GPU)
    assert columns(trace, *SHAPE, "gpu_milli", "cpus", "priority", "preemptible", "qos", "constraint") == [
        ("7", 0.0, 1, 3600.0, "13", 1000, 20.0, 1.0, False, "HP", "gpu_type=A10"),
        ("8", 60.0, 16, 1.0, "57", 1000, 240.0, 0.0, True, "Spot", "gpu_type=A100-SXM4-80GB"),
        ("9", 90.0, 1, 100.0, "57", 250, 4.0, 0.0, True, "Spot", "gpu_type=A10"),
        ("10", 95.0, 3, 100.0, "57", 1000, 12.0, 0.0, True, "Spot", "gpu_type=A10"),
    ]
    assert trace.notes == (
        "dropped 1 of 5 rows: no GPU asked for",
        "rounded the GPUs of 1 job up to a whole number",
        "set 1 duration of 0 s to 1 s",
    )


@pytest.mark.parametrize(
    "header",
    ["", "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"],
)
def test_pai_tasks_of_a_job_are_added_with_or_without_header(tmp_path: Path, header: str) -> None:
    trace = read(tmp_path, header + samples.PAI)
    assert columns(trace, *SHAPE, "gpu_milli", "cpus", "memory_gb", "status", "gpu_type") == [
        ("j1", 100.0, 2, 200.0, "", 1000, 14.0, 49.5, "Failed", "V100"),
        ("j2", 0.0, 1, 60.0, "", 500, 6.0, 29.5, "Terminated", "MISC"),
        ("j4", 80.0, 2, 10.0, "", 1000, 3.0, 3.0, "Terminated", "T4"),
    ]
    assert trace.notes == (
        "joined 7 tasks into 6 jobs",
        "dropped 1 of 6 rows: no GPU asked for",
        "dropped 1 of 5 rows: never started",
        "dropped 1 of 4 rows: not finished when the log ends",
        "rounded the GPUs of 1 job up to a whole number",
    )
    assert trace.lines is not None
    assert trace.lines.to_list() == [1 + bool(header), 3 + bool(header), 5 + bool(header)]


def test_hourly_pods_count_the_hours_that_they_run(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.HOURLY_PODS)
    assert columns(trace, *SHAPE, "gpu_milli", "priority", "preemptible", "user", "constraint") == [
        ("a", 0.0, 2, 7200.0, "", 1000, 0.0, True, "w1", "gpu_type=H800"),
        ("b", 0.0, 1, 3600.0, "", 500, 1.0, False, "", "gpu_type=A10"),
    ]
    assert trace.notes == (
        "times are whole hours: the table says no more",
        "dropped 1 of 5 rows: no GPU asked for",
        "dropped 1 of 4 rows: not finished when the log ends",
        "dropped 1 of 3 rows: never started",
    )


def test_swf_takes_processors_for_gpus(tmp_path: Path) -> None:
    names = (
        *SHAPE,
        "user",
        "partition",
        "qos",
        "time_limit_seconds",
        "start_seconds",
        "end_seconds",
        "status",
    )
    trace = read(tmp_path, samples.SWF)
    assert columns(trace, *names) == [
        ("1", 0.0, 8, 100.0, "1", "3", "2", "1", 600.0, 10.0, 110.0, "COMPLETED"),
        ("2", 5.0, 8, 100.0, "1", "4", "", "1", 100.0, 25.0, 125.0, "FAILED"),
        ("4", 7.5, 1, 1.0, "", "4", "", "", None, 7.5, 7.5, "COMPLETED"),
    ]
    assert trace.jobs["memory_gb"].to_list() == [2048 * 8 * 1024 / 1e9, None, None]
    assert trace.lines is not None
    assert trace.lines.to_list() == [5, 6, 8]
    without_comments = samples.SWF.partition(";\n")[2]
    assert columns(read(tmp_path, without_comments), *names) == columns(trace, *names)


def test_sacct_text_takes_jobs_that_ran_on_gpus(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.SACCT)
    assert columns(trace, *SHAPE, "user", "status", "cpus", "constraint") == [
        ("100", 60.0, 4, 93_784.0, "lab", "u1", "COMPLETED", 8.0, "gpu_type=v100"),
        ("101_3", 0.0, 2, 90.0, "lab", "u1", "CANCELLED", 2.0, ""),
        ("104", 60.0, 2, 1.0, "other", "u2", "TIMEOUT", 8.0, ""),
    ]
    # 64 GiB; 4000 MiB; 8 GiB for each of 8 CPUs.
    gib = 2**30 / 1e9
    assert trace.jobs["memory_gb"].to_list() == pytest.approx([64 * gib, 4000 / 1024 * gib, 64 * gib])
    assert trace.notes == (
        "dropped 2 of 9 rows: steps of jobs",
        "dropped 1 of 7 rows: no GPU asked for",
        "dropped 1 of 6 rows: not finished when the log was written",
        "dropped 1 of 5 rows: never started (cancelled while waiting)",
        "dropped 1 of 4 rows: requeued: the last run counts",
        "set 1 duration of 0 s to 1 s",
    )


def test_sacct_text_may_be_joined_from_several_files(tmp_path: Path) -> None:
    """As by `cat january.txt february.txt`: each begins with the header."""
    header, *rows = samples.SACCT.splitlines(keepends=True)
    joined = read(tmp_path, header + "".join(rows[:4]) + header + "".join(rows[4:]))
    whole = read(tmp_path, samples.SACCT)
    assert joined.jobs.equals(whole.jobs)
    assert joined.notes == ("passed over 1 repeated header, as of joined files", *whole.notes)
    assert joined.lines is not None
    assert joined.lines.to_list()[-1] == len(rows) + 2


@pytest.mark.parametrize(
    ("header", "cells", "gpus", "memory_gb"),
    [
        # 17 to 20.02: GRES a node; memory a CPU (c) or a node (n).
        ("ReqGRES|ReqMem|ReqCPUS|NNodes", "gpu:4|2Gc|8|2", 8, 16 * 2**30 / 1e9),
        ("ReqGRES|ReqMem|ReqCPUS|NNodes", "gpu:v100:4|2Gn|8|2", 8, 4 * 2**30 / 1e9),
        ("AllocGRES|ReqMem|ReqCPUS|NNodes", "gpu:v100:2,nvme:1|4000Mn|8|1", 2, 4000 * 2**20 / 1e9),
        ("AllocGRES|ReqMem|ReqCPUS|NNodes", "gpu|0n|8|1", 1, None),
        ("ReqGRES|ReqMem|ReqCPUS|NNodes", "gpu:v100:1(S:0),nvme:1,gpu:a100:2|0n|8|2", 6, None),
        # Since 20.11 the whole job.
        ("ReqTRES|ReqMem", "cpu=1,gres/gpu=3,node=2|4000M", 3, 4000 * 2**20 / 1e9),
        (
            "ReqTRES|AllocTRES",
            "cpu=1,mem=1.50G|cpu=1,gres/gpu:a=1,gres/gpu:b=2,gres/gpumem=7,mem=3G",
            3,
            1.5 * 2**30 / 1e9,
        ),
        ("AllocTRES|NCPUS", "gres/gpu:a100_3g.20gb=1,gres/gpu=1,mem=1T|4", 1, 2**40 / 1e9),
    ],
)
def test_sacct_resources_of_every_age(
    tmp_path: Path, header: str, cells: str, gpus: int, memory_gb: float | None
) -> None:
    text = f"JobID|Submit|Elapsed|{header}\n7|2020-01-01T00:00:00|00:10:00|{cells}\n"
    trace = read(tmp_path, text)
    assert trace.jobs["gpus"].to_list() == [gpus]
    assert trace.jobs["memory_gb"].to_list() == [None if memory_gb is None else pytest.approx(memory_gb)]


@pytest.mark.parametrize(
    ("header", "cells", "constraint"),
    [
        ("ReqTRES|AllocTRES", "gres/gpu=2|gres/gpu=2,gres/gpu:a100=2", ""),
        ("ReqTRES|AllocTRES", "gres/gpu:a100=1,gres/gpu:v100=1|gres/gpu:a100=1", ""),
        ("ReqTRES|ReqGRES", "gres/gpu=2|gpu:v100:2", "gpu_type=v100"),
        ("ReqGRES|AllocGRES", "gpu:2|gpu:v100:2", ""),
        # Nothing says what was asked for.
        ("ReqTRES|AllocTRES", "cpu=8|gres/gpu:a100=2", "gpu_type=a100"),
        ("AllocTRES|AllocGRES", "gres/gpu=2|gpu:v100:2", "gpu_type=v100"),
    ],
)
def test_sacct_jobs_may_run_on_the_types_they_ask_for(
    tmp_path: Path, header: str, cells: str, constraint: str
) -> None:
    text = f"JobID|Submit|Elapsed|{header}\n7|2024-01-01T00:00:05|00:01:00|{cells}\n"
    assert read(tmp_path, text).jobs["constraint"].to_list() == [constraint]


@pytest.mark.parametrize(
    ("requested", "constraint"),
    [
        ([("gres", "gpu", 2)], ""),
        ([("gres", "gpu:a100", 1), ("gres", "gpu:v100", 1)], ""),
        ([("gres", "gpu:v100", 2)], "gpu_type=v100"),
        ([("cpu", "", 8)], "gpu_type=a100"),
    ],
)
def test_sacct_json_keeps_to_the_types_asked_for(
    tmp_path: Path, requested: list[tuple[str, str, int]], constraint: str
) -> None:
    one = samples.slurm_job(1, "COMPLETED", 100, 200, 60, *requested)
    tres = {**one["tres"], "allocated": [{"type": "gres", "name": "gpu:a100", "count": 2}]}  # type: ignore[dict-item]
    trace = read(tmp_path, json.dumps({"jobs": [one | {"tres": tres}]}))
    assert trace.jobs["constraint"].to_list() == [constraint]


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [
        ("1-02:03:04", 93_784),
        ("02:03:04", 7_384),
        ("03:04", 184),
        ("03:04.5", 184.5),
        ("10-00:00:00", 864_000),
        ("75", 75),
    ],
)
def test_sacct_elapsed(tmp_path: Path, elapsed: str, seconds: float) -> None:
    text = f"JobID|Submit|Elapsed|ReqTRES|\n7|2020-01-01T00:00:00|{elapsed}|gres/gpu=1|\n"
    assert read(tmp_path, text).jobs["duration_seconds"].to_list() == [seconds]
    with pytest.raises(InputError, match=":2: elapsed: found 'soon'"):
        read(tmp_path, text.replace(elapsed, "soon"))


def test_sacct_keeps_what_the_scheduler_knew_and_did(tmp_path: Path) -> None:
    header = (
        "JobID|Submit|Start|End|Elapsed|Timelimit|Partition|QOS|Priority|NNodes|Restarts|ExitCode|ReqTRES"
    )
    moments = "2024-01-01T00:00:05|2024-01-01T00:01:05|2024-01-01T00:02:05|00:01:00"
    text = (
        f"{header}\n"
        f"7|{moments}|00:30:00|gpu|high|4294901758|2|1|1:0|gres/gpu=16\n"
        f"8|{moments}|UNLIMITED|gpu|low|9|1|0|0:0|gres/gpu=1\n"
        f"9|{moments}|00:00:30|gpu|low|9|1|0|0:15|gres/gpu=1\n"
    )
    trace = read(tmp_path, text)
    names = ("start_seconds", "end_seconds", "time_limit_seconds", "partition", "qos", "priority", "nodes")
    assert columns(trace, *names, "requeues", "exit_code") == [
        (60.0, 120.0, 1800.0, "gpu", "high", 4294901758.0, 2, 1, "1:0"),
        (60.0, 120.0, None, "gpu", "low", 9.0, 1, 0, "0:0"),
        (60.0, 120.0, 60.0, "gpu", "low", 9.0, 1, 0, "0:15"),
    ]
    assert trace.notes == ("set 1 time limit to the time that the job really ran",)


@pytest.mark.parametrize(
    ("name", "limit", "seconds"),
    [
        ("Timelimit", "1-02:03:04", 93_784.0),
        ("Timelimit", "Partition_Limit", None),
        ("Timelimit", "INVALID", None),
        ("Timelimit", "", None),
        ("TimelimitRaw", "90", 5400.0),
        ("TimelimitRaw", "UNLIMITED", None),
        ("TimelimitRaw", "Partition_Limit", None),
    ],
)
def test_sacct_time_limits(tmp_path: Path, name: str, limit: str, seconds: float | None) -> None:
    text = f"JobID|Submit|Elapsed|{name}|ReqTRES\n7|2024-01-01T00:00:05|00:01:00|{limit}|gres/gpu=1\n"
    assert read(tmp_path, text).jobs["time_limit_seconds"].to_list() == [seconds]


@pytest.mark.parametrize(
    ("name", "limit"), [("Timelimit", "2 hours"), ("Timelimit", "-5"), ("TimelimitRaw", "1:30")]
)
def test_a_time_limit_that_is_none_is_refused(tmp_path: Path, name: str, limit: str) -> None:
    text = f"JobID|Submit|Elapsed|{name}|ReqTRES\n7|2024-01-01T00:00:05|00:01:00|{limit}|gres/gpu=1\n"
    with pytest.raises(
        InputError, match=f":2: {name.lower()}: found '?{limit}'?; allowed: a .*UNLIMITED or Partition"
    ):
        read(tmp_path, text)


def _one_of_sacct(name: str, cell: str) -> str:
    return f"JobID|Submit|Elapsed|ReqGRES|{name}\n7|2024-01-01T00:00:05|00:01:00|gpu:1|{cell}\n"


@pytest.mark.parametrize(
    "tres",
    [
        "cpu=1.50K,gres/gpu=1",
        "cpu=2,gres/gpu=1K",
        "gres/gpu:a100=0.5,node=1",
        "gres/gpu:4",
        "GRES/GPU=4",
        "gpu=4",
        "cpu=8,node=1,gres/g+",
        "some gpus",
    ],
)
def test_sacct_amounts_that_cannot_be_read_are_refused(tmp_path: Path, tres: str) -> None:
    found = re.escape(f":2: reqtres: found '{tres}'; allowed: whole numbers of cpu and gres/gpu")
    with pytest.raises(InputError, match=found):
        read(tmp_path, _one_of_sacct("ReqTRES", tres))


def test_sacct_nodes_that_are_no_number_are_refused_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nnodes: found '1-2'") as refused:
        read(tmp_path, _one_of_sacct("NNodes", "1-2"))
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize(
    "gres", ["gpu:1.5K", "gpu:2K", "GPU:4", "gpus:4", "gpu:", "gpu:a100:", "gpu:4(IDX:0"]
)
def test_sacct_gres_that_cannot_be_read_is_refused(tmp_path: Path, gres: str) -> None:
    found = re.escape(f":2: allocgres: found 'nvme:1,{gres}'; allowed: whole numbers of gpu")
    with pytest.raises(InputError, match=found):
        read(tmp_path, _one_of_sacct("AllocGRES", f"nvme:1,{gres}"))


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("gpu:1g.5gb:2", 2), ("gpu:v100", 1), ("gpu:4(IDX:0,2-4),nvme:1", 4), ("gres/gpu=2", 2)],
)
def test_sacct_gres_in_less_common_forms_is_read(tmp_path: Path, gres: str, gpus: int) -> None:
    text = f"JobID|Submit|Elapsed|AllocGRES\n7|2024-01-01T00:00:05|00:01:00|{gres}\n"
    assert read(tmp_path, text).jobs["gpus"].to_list() == [gpus]


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ("completed", "COMPLETED"),
        ("CANCELLED by 7", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("Unknown", ""),
        ("", ""),
    ],
)
def test_sacct_states_may_be_cut_short(tmp_path: Path, written: str, state: str) -> None:
    assert read(tmp_path, _one_of_sacct("State", written)).jobs["status"].to_list() == [state]


def test_sacct_states_that_go_on_are_known_when_cut(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no job in it: dropped 1 of 1 row: not finished"):
        read(tmp_path, _one_of_sacct("State", "RUNN+"))


@pytest.mark.parametrize("written", ["FLYING", "RE+", "COMPLETE", "+", "0:0"])
def test_sacct_states_that_are_none_are_refused(tmp_path: Path, written: str) -> None:
    found = re.escape(f":2: state: found '{written}'; allowed: a state of Slurm's jobs, as PENDING")
    with pytest.raises(InputError, match=found):
        read(tmp_path, _one_of_sacct("State", written))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"state": {"current": ["FLYING"]}}, "jobs[0].state.current: found ['FLYING']; allowed: a state"),
        (
            {"tres": {"requested": "gres/gpu=4"}},
            "jobs[0].tres.requested: found 'gres/gpu=4'; allowed: a list",
        ),
        ({"tres": {"requested": ["gres/gpu=4"]}}, "jobs[0].tres.requested: found 'gres/gpu=4'; allowed"),
        (
            {"tres": {"allocated": [{"type": "gres", "name": "gpu", "count": "4"}]}},
            "jobs[0].tres.allocated: found {'type': 'gres', 'name': 'gpu', 'count': '4'}; allowed: a list",
        ),
    ],
)
def test_sacct_json_that_cannot_be_read_is_refused(
    tmp_path: Path, change: dict[str, object], refusal: str
) -> None:
    one = samples.slurm_job(1, "COMPLETED", 100, 200, 60, ("gres", "gpu", 1)) | change
    with pytest.raises(InputError, match=re.escape(refusal)):
        read(tmp_path, json.dumps({"jobs": [one]}))


def test_earlier_runs_of_requeued_jobs_are_not_called_unfinished(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|Start|End|Elapsed|State|ReqTRES\n"
        "7|2024-01-01T00:00:00|2024-01-01T00:00:05|2024-01-01T00:01:05|00:01:00|REQUEUED|gres/gpu=1\n"
        "7|2024-01-01T00:01:05|2024-01-01T00:02:05|2024-01-01T00:04:05|00:02:00|COMPLETED|gres/gpu=1\n"
        "8|2024-01-01T00:01:05|2024-01-01T00:02:05|Unknown|00:02:00|RUNNING|gres/gpu=1\n"
    )
    trace = read(tmp_path, text)
    assert columns(trace, "job_id", "duration_seconds") == [("7", 120.0)]
    assert trace.notes == (
        "dropped 1 of 3 rows: an earlier run of a requeued job",
        "dropped 1 of 2 rows: not finished when the log was written",
    )


def test_runs_of_a_requeued_job_may_be_in_any_order(tmp_path: Path) -> None:
    """As where the files of two months are joined, the later one first."""
    header = "JobID|Submit|Start|End|Elapsed|State|ReqTRES\n"
    first = "7|2024-01-01T00:00:00|2024-01-01T00:00:05|2024-01-01T00:01:05|00:01:00|NODE_FAIL|gres/gpu=1\n"
    second = "7|2024-01-01T00:00:00|2024-01-01T00:02:05|2024-01-01T00:04:05|00:02:00|COMPLETED|gres/gpu=1\n"
    for rows in (first + second, second + first):
        trace = read(tmp_path, header + rows)
        assert columns(trace, "duration_seconds") == [(120.0,)]
        assert trace.notes == ("dropped 1 of 2 rows: requeued: the last run counts",)


USED_HEADER = (
    "JobID|Submit|Elapsed|ReqTRES|NodeList|TotalCPU|MaxRSS|TRESUsageInTot|TRESUsageInAve|AdminComment"
)


def jobstats(nodes: dict[str, object]) -> str:
    text = json.dumps({"nodes": nodes, "total_time": 100, "gpus": 2})
    return "JS1:" + base64.b64encode(gzip.compress(text.encode())).decode()


def test_sacct_says_what_the_steps_of_jobs_used(tmp_path: Path) -> None:
    comment = jobstats({"n1": {"used_memory": 2e9, "total_time": 300, "gpu_utilization": {"0": 50, "1": 70}}})
    moment = "2024-01-01T00:00:00"
    text = (
        f"{USED_HEADER}\n"
        f"7|{moment}|00:10:00|gres/gpu=4|n[1-2]|00:20:00||||\n"
        f"7.batch|{moment}|00:10:00||n1|00:01:00|1G|cpu=00:01:00,mem=1G|gres/gpuutil=80|\n"
        f"7.0|{moment}|00:10:00||n[1-2]|00:19:00|3G|cpu=00:19:00,mem=4G|gres/gpuutil=60|\n"
        f"8|{moment}|00:01:40|gres/gpu=2|n2|||||{comment}\n"
        f"9|{moment}|00:10:00|gres/gpu=1|n2|||||JS1:broken\n"
        f"10|{moment}|00:10:00|gres/gpu=1|n2|||||\n"
        f"10.0|{moment}|00:10:00|||||cpu=00:05:00|gres/gpuutil=250|\n"
    )
    found = columns(read(tmp_path, text), "job_id", "node_list", *USAGE)
    gib = 2**30 / 1e9
    assert found == [
        ("7", "n[1-2]", 2.0, pytest.approx(4 * gib), pytest.approx(0.8), pytest.approx(3.2)),
        ("8", "n2", 3.0, 2.0, pytest.approx(1.2), pytest.approx(1.2)),
        ("9", "n2", None, None, None, None),
        ("10", "n2", 0.5, None, 1.0, 1.0),
    ]


def test_each_run_of_a_requeued_job_used_its_own(tmp_path: Path) -> None:
    # As sacct -D prints it: 4 cores for ten minutes on four GPUs, then 2 cores for one minute.
    first, last = "2024-01-01T00:00:00", "2024-01-01T01:00:00"
    text = (
        f"{USED_HEADER}\n"
        f"7|{first}|00:10:00|gres/gpu=4|n1|00:40:00||||\n"
        f"7.0|{first}|00:10:00||n1|00:40:00|3G|cpu=00:40:00,mem=3G|gres/gpuutil=90|\n"
        f"7|{last}|00:01:00|gres/gpu=4|n1|00:02:00||||\n"
        f"7.0|{last}|00:01:00||n1|00:02:00|1G|cpu=00:02:00,mem=1G|gres/gpuutil=10|\n"
    )
    gib = 2**30 / 1e9
    assert columns(read(tmp_path, text), *USAGE) == [(2.0, pytest.approx(gib), 0.1, 0.4)]


def test_parts_of_a_heterogeneous_job_are_one_job(tmp_path: Path) -> None:
    moment = "2024-01-01T00:00:00"
    text = (
        f"{USED_HEADER}\n"
        f"12+0|{moment}|00:10:00|cpu=8,gres/gpu:a=4,node=1|n1|||||\n"
        f"12+1|{moment}|00:10:00|cpu=2,node=1|c1|||||\n"
        f"13|{moment}|00:10:00|cpu=1,gres/gpu=1,node=1|n2|||||\n"
    )
    trace = read(tmp_path, text)
    names = ("job_id", "gpus", "cpus", "node_list", "constraint")
    assert columns(trace, *names) == [("12", 4, 10.0, "n1,c1", "gpu_type=a"), ("13", 1, 1.0, "n2", "")]
    assert "joined 2 parts of 1 heterogeneous job" in trace.notes


def test_sacct_json_keeps_what_the_scheduler_did(tmp_path: Path) -> None:
    job = {
        "job_id": 7,
        "time": {
            "submission": 100,
            "start": 160,
            "end": 220,
            "elapsed": 60,
            "limit": {"set": True, "number": 30},
        },
        "tres": {"requested": [{"type": "gres", "name": "gpu", "count": 16}]},
        "partition": "gpu",
        "qos": "high",
        "priority": {"set": True, "number": 12},
        "allocation_nodes": 2,
        "restart_cnt": 1,
        "exit_code": {"return_code": {"set": True, "number": 1}, "signal": {"id": {"set": False}}},
    }
    trace = read(tmp_path, json.dumps({"jobs": [job]}))
    names = ("start_seconds", "end_seconds", "time_limit_seconds", "partition", "qos", "priority", "nodes")
    assert columns(trace, *names, "requeues", "exit_code") == [
        (60.0, 120.0, 1800.0, "gpu", "high", 12.0, 2, 1, "1:0")
    ]


def test_sacct_without_elapsed_takes_start_and_end(tmp_path: Path) -> None:
    text = "JOBID,SUBMIT,START,END,ALLOCTRES\n7,1700000000,1700000010,1700000070,gres/gpu=1\n"
    assert columns(read(tmp_path, text), *SHAPE) == [("7", 0.0, 1, 60.0, "")]


def test_sacct_ends_where_the_clock_was_set_back(tmp_path: Path) -> None:
    """Slurm writes local time and, for a time below 0, INVALID."""
    path = tmp_path / "sacct.txt"
    times = "2020-11-01T01:30:00|2020-11-01T01:50:00|2020-11-01T01:10:00|00:20:00"
    other = "2020-11-01T03:00:00|2020-11-01T03:00:00|2020-11-01T04:00:00|INVALID"
    both = "2020-11-01T01:30:00|2020-11-01T01:50:00|2020-11-01T01:10:00|INVALID"
    rows = [f"{job}|COMPLETED|{one}|gres/gpu=1" for job, one in enumerate((times, other, both), 1)]
    path.write_text("\n".join(("JobID|State|Submit|Start|End|Elapsed|ReqTRES", *rows)) + "\n")
    jobs = read_trace(path).jobs.sort("job_id")
    assert jobs["duration_seconds"].to_list() == [1200.0, 3600.0, 1200.0]
    assert (jobs["end_seconds"] - jobs["start_seconds"]).to_list() == [1200.0, 3600.0, 1200.0]


@pytest.mark.parametrize("tres", ["gres/shard=2", "gres/mps:a100=50"])
def test_sacct_names_jobs_with_parts_of_gpus(tmp_path: Path, tres: str) -> None:
    path = tmp_path / "sacct.txt"
    times = "2024-01-01T01:30:00|00:20:00|cpu=1"
    path.write_text(f"JobID|Submit|Elapsed|ReqTRES\n1|{times},gres/gpu=1,{tres}\n2|{times},{tres}\n")
    trace = read_trace(path)
    assert trace.jobs["job_id"].to_list() == ["1"]
    assert any("1 job with parts of GPUs alone (gres/shard or gres/mps)" in note for note in trace.notes)


def test_sacct_json_of_old_and_new_versions(tmp_path: Path) -> None:
    names = (*SHAPE, "user", "status", "cpus", "memory_gb", "constraint")
    assert columns(read(tmp_path, samples.SACCT_JSON_OLD), *names) == [
        ("1", 100.0, 4, 3600.0, "lab", "u1", "COMPLETED", 8.0, pytest.approx(65_536 * 2**20 / 1e9), ""),
        ("3", 0.0, 2, 1.0, "lab", "u1", "FAILED", None, None, "gpu_type=a100"),
    ]
    assert columns(read(tmp_path, samples.SACCT_JSON_NEW), *names) == [
        ("4_7", 100.0, 2, 60.0, "lab", "u1", "COMPLETED", None, None, "gpu_type=h100"),
        ("7", 0.0, 1, 30.0, "lab", "u1", "TIMEOUT", None, None, ""),
    ]


def test_any_table_is_read_through_a_mapping(tmp_path: Path) -> None:
    trace = read(tmp_path, samples.MAPPED, mapping=samples.MAPPING)
    assert columns(trace, *SHAPE) == [("x", 10.0, 2, 100.0, "blue"), ("z", 7.0, 1, 1.0, "red")]
    assert trace.notes == ("dropped 1 of 3 rows: no GPU asked for", "set 1 duration of 0 s to 1 s")
    assert parse_mapping("submit=arrival_s, gpus = num_gpu") == {
        "submit_seconds": "arrival_s",
        "gpus": "num_gpu",
    }


def test_a_mapped_problem_names_the_column_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":2: num_gpu: found '2\.5'"):
        read(tmp_path, samples.MAPPED.replace("10;2;", "10;2.5;"), mapping=samples.MAPPING)
    with pytest.raises(InputError, match="arrival_s: found 'soon'"):
        read(tmp_path, samples.MAPPED.replace("10;2;", "soon;2;"), mapping=samples.MAPPING)
    with pytest.raises(InputError, match="start: no such column to map submit_seconds to; found: name"):
        read(tmp_path, samples.MAPPED, mapping={"submit": "start"})


@pytest.mark.parametrize(
    ("start", "end"),
    [("2024-03-01T09:00:10", "2024-03-01 09:01:50"), ("1709283610", "1709283710"), ("1709283610", "")],
)
def test_mapped_starts_and_ends_are_on_the_clock_of_submits(tmp_path: Path, start: str, end: str) -> None:
    table = f"at,from,to,gpus,run\n2024-03-01T09:00:00,{start},{end},1,100\n1709283605.5,,,1,100\n"
    mapping = {"submit": "at", "start_seconds": "from", "end_seconds": "to", "duration": "run"}
    jobs = read(tmp_path, table, mapping=mapping).jobs
    assert jobs["submit_seconds"].to_list() == [0, 5.5]
    assert jobs["start_seconds"].to_list() == [10, None]
    assert jobs["end_seconds"].to_list() == [110 if end else None, None]


def test_mapped_dates_beside_seconds_are_refused(tmp_path: Path) -> None:
    table = "at,from,gpus,run\n5,2024-03-01T09:00:10,1,100\n"
    with pytest.raises(InputError, match=r":2: from: found '2024-03-01T09:00:10'"):
        read(tmp_path, table, mapping={"submit": "at", "start_seconds": "from", "duration": "run"})


def test_mapped_milliseconds_are_no_seconds(tmp_path: Path) -> None:
    table = "at,gpus,run\n1704067200000,1,10\n1704067800000,1,20\n"
    with pytest.raises(InputError, match=":2: at: found 1704067200000; allowed: a number of seconds"):
        read(tmp_path, table, mapping={"submit": "at", "duration": "run"})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024-03-31T23:59:00", "2024-04-01 00:00:30"),
        ("2024-03-31T23:59:00Z", "2024-04-01T02:00:30+02:00"),
        ("2024/03/31 23:59", "2024-03-31 18:30:30-0530"),
        ("1711929540", "1711929630"),
    ],
)
def test_mapped_dates_become_seconds_since_the_first(tmp_path: Path, first: str, second: str) -> None:
    text = f"id,submit,gpus,duration,due\na,{second},1,5,{second}\nb,{first},1,5,\n"
    mapping = {"id": "id", "submit": "submit", "duration": "duration", "deadline": "due"}
    trace = read(tmp_path, text, mapping=mapping)
    assert trace.jobs["submit_seconds"].to_list() == [90.0, 0.0]
    assert trace.jobs["deadline_seconds"].to_list() == [90.0, None]
    assert trace.notes == ("times are dates: 0 is the first submission",)


@pytest.mark.parametrize("moment", ["2024-02-30 00:00:00", "2024-01-01 24:00:00", "2024-13-01", "yesterday"])
def test_no_date_is_refused(tmp_path: Path, moment: str) -> None:
    with pytest.raises(InputError, match=":3: timestamp: found"):
        read(tmp_path, samples.PHILLY_TENANTS.replace("2017-10-09 06:13:03", moment))


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("submit", "pairs such as submit=arrival_s"),
        ("submit=", "pairs such as"),
        ("start=x", "is no column of a trace"),
        ("submit=a,submit_seconds=b", "is mapped twice"),
    ],
)
def test_a_mapping_that_says_nothing_is_refused(text: str, reply: str) -> None:
    with pytest.raises(InputError, match=reply):
        parse_mapping(text)


@pytest.mark.parametrize(
    ("text", "how", "reply"),
    [
        (samples.HELIOS, {"kind": "philly"}, "this is not philly: needed are columns #job id"),
        (
            samples.HELIOS,
            {"kind": "slurm"},
            "allowed: one of auto, native, philly, helios, openb, acme, pai, spot-gpu, gpu-2026, swf, sacct, csv",
        ),
        (
            samples.HELIOS,
            {"kind": "helios", "mapping": {"gpus": "gpu_num"}},
            "columns are mapped for csv only",
        ),
        (samples.SACCT_JSON_OLD, {"kind": "csv"}, "this is JSON"),
        (
            "a,b\n1,2\n",
            {},
            "no trace that is known here; found columns a, b; allowed: native, .* sacct. Hint: name",
        ),
        ("JobID|Submitted|State\n1|2|3\n", {}, "; nearest is sacct: the output of sacct --json, or .*JobID,"),
        ("[]", {}, "no trace that is known here"),
        ('{"jobs": [', {}, ":1: this is not JSON"),
        ("[" * 100_000, {}, "cannot be used|not JSON"),
        ('{"jobs": []}', {}, "there is no job in it"),
        ('{"jobs": [{"job_id": 1}, 5]}', {}, r"jobs\[0\]: allowed: a job with job_id and time.submission"),
        ('[{"jobid": 1, "attempts": 5}, 7]', {}, r"\[0\].attempts: allowed: a list of attempts"),
        (samples.PHILLY_SIZES.replace("3600.0", "x"), {}, r":2: duration \(sec\): found 'x'"),
        (samples.PHILLY_SIZES.replace("3600.0", "-1"), {}, r":2: duration \(sec\): found -1"),
        (
            samples.PHILLY_SIZES.replace("2,300.5", "0,300.5"),
            {},
            ":4: #job id: found '0'; is a second job",
        ),
        (
            samples.PHILLY_LOG.replace(samples.DAY + "14:05:02", "noon"),
            {},
            "submitted_time: found 'noon'",
        ),
        (samples.OPENB.replace(",6000,0,1,460", ",6000,0,2,460"), {}, ":3: gpu_milli: found 460"),
        (samples.SWF.replace("2  5   20", "2  5"), {}, ":6: has 17 cells; a line of SWF has 18"),
        (
            samples.SWF.replace("2  5   20", "2  5   soon"),
            {},
            ":6: wait time: found 'soon'; allowed: a number",
        ),
        (
            samples.SWF.replace("2  5   20", "2  5   -7"),
            {},
            ":6: wait time: found '-7'; allowed: a number from 0",
        ),
        (samples.PAI.replace("2.0,Failed", "two,Failed"), {}, ":2: inst_num: found 'two'"),
        (samples.PAI.replace(",V100", ""), {}, ":2: has 9 cells; the first line has 10"),
        (samples.SPOT_GPU.replace("HP", "Best"), {}, ":2: job_type: found 'Best'; allowed: HP or Spot"),
        (samples.SPOT_GPU.replace("1,16", "-1,-16"), {}, ":3: worker_num: found '-16'"),
        (samples.ACME.replace("2023-03-01 08:00:10", "noon"), {}, ":2: submit_time: found 'noon"),
        (samples.ACME_PODS.replace(",1000,", ",-1,"), {}, ":2: mem_per_pod_GB: found '-1'"),
        (samples.HOURLY_PODS.replace("1,01", "1,"), {}, ":7: hour: is empty"),
        (
            "pod_id,priority_class,gpu_spec_public,gpu_request,duration_hours\na,HP,A10,1,2\n",
            {},
            "does not say when a pod came",
        ),
        (
            samples.HELIOS.replace("COMPLETED", "RUNNING").replace("FAILED", "RUNNING"),
            {},
            "no job in it: dropped",
        ),
    ],
)
def test_what_does_not_fit_is_reported(tmp_path: Path, text: str, how: dict[str, Any], reply: str) -> None:
    with pytest.raises(InputError, match=reply):
        read(tmp_path, text, **how)
