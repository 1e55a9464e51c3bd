"""What a job of Slurm requests, from squeue's columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.service.engines.interface import StartRefused
from muster.service.engines.slurm.job_files import passed_on
from muster.service.engines.slurm.nodes import of_several_types
from muster.service.engines.slurm.refusals import refusal, waiting_words
from muster.service.engines.slurm.status import SlurmJob
from muster.service.engines.slurm.submitted import Adopted, AdoptedJobs, NewJobs, request_of
from muster.slurm_commands import SlurmError
from muster.slurm_queries import SlurmQueries

_PLAIN = {
    "JobArrayID": "7",
    "Partition": "train",
    "State": "PENDING",
    "PriorityLong": "0",
    "SubmitTime": "1700000000",
    "StartTime": "",
    "Requeue": "1",
    "NumNodes": "1",
    "NumTasks": "1",
    "cpus-per-task": "1",
    "MinMemory": "0",
    "tres-per-node": "",
    "tres-per-socket": "",
    "mem-per-tres": "",
    "cpus-per-tres": "",
    "tres-alloc": "",
    "ReqNodes": "",
    "tres-per-job": "",
    "tres-per-task": "",
    "Feature": "",
    "UserName": "ann",
    "Dependency": "",
    "HetJobID": "",
    "Name": "train",
    "Command": "/home/ann/train.sh",
    "WorkDir": "/home/ann",
    "Comment": "muster:",
}


def row(**columns: str) -> SlurmJob:
    """A held job; `_` in a column's name stands for `-`."""
    return SlurmJob(7, {**_PLAIN, **{name.replace("_", "-"): value for name, value in columns.items()}})


@pytest.mark.parametrize(
    ("columns", "gpus", "constraint"),
    [
        ({"tres_per_job": "gres:gpu:4"}, 4, ""),
        ({"tres_per_node": "gres:gpu:v100:2", "NumNodes": "2"}, 4, "gpu_type=v100"),
        ({"tres_per_node": "gres:gpu:2", "NumNodes": "2-4"}, 4, ""),
        ({"tres_per_task": "gres:gpu:1", "NumTasks": "8"}, 8, ""),
        ({"tres_per_node": "gres:gpu"}, 1, ""),
        ({"tres_per_node": "gres/gpu:v100:2"}, 2, "gpu_type=v100"),
        ({"tres_per_job": "gres:gpu:a100-80:3"}, 3, "gpu_type=a100-80"),
        ({"tres_per_node": "gres/gpu:1080ti:2"}, 2, "gpu_type=1080ti"),
        ({"tres_per_task": "cpu=4,gres/gpu=2", "NumTasks": "2"}, 4, ""),
        ({"tres_per_task": "gres/gpu:a100=4"}, 4, "gpu_type=a100"),
    ],
)
def test_gpus_are_counted_over_nodes_and_tasks(columns: dict[str, str], gpus: int, constraint: str) -> None:
    request = request_of(row(**columns))
    assert (request.gpus, request.constraint) == (gpus, constraint)
    assert (request.cpus, request.memory_gb) == (None, None)


@pytest.mark.parametrize(
    ("columns", "gb"),
    [
        ({"MinMemory": "4G", "cpus_per_task": "3", "tres_alloc": "cpu=3,mem=12G,node=1"}, 12 * 2**30 / 1e9),
        ({"MinMemory": "0", "mem_per_tres": "gres:gpu:4096", "tres_alloc": "cpu=1,mem=8G"}, 8 * 2**30 / 1e9),
        ({"MinMemory": "0", "tres_alloc": "cpu=1,mem=500000M,node=1"}, None),
    ],
    ids=["for each CPU", "for each GPU", "not stated"],
)
def test_memory_is_what_slurm_counts_in_all(columns: dict[str, str], gb: float | None) -> None:
    found = request_of(row(tres_per_job="gres:gpu:2", **columns)).memory_gb
    assert found == (None if gb is None else pytest.approx(gb))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"HetJobID": "6"},
            "it is a part of the heterogeneous job 6; allowed: a job with the same amounts on each of its nodes. "
            "Hint: scontrol update jobid=7 Comment=",
        ),
        (
            {"tres_per_socket": "gres:gpu:2"},
            "gpus-per-socket: found gres:gpu:2; allowed: --gpus, --gpus-per-node or --gpus-per-task",
        ),
        (
            {"tres_per_node": "gres:gpu:2,gres:shard:3"},
            "gres: found gres:shard:3; allowed: whole GPUs. Hint: scontrol update jobid=7 TresPerNode=gres:gpu:...",
        ),
        ({"tres_per_node": "gres/nic:1"}, "gres: found gres/nic:1; allowed: whole GPUs"),
        ({"tres_per_task": "cpu=4,gres/shard=2"}, "gres: found gres/shard=2; allowed: whole GPUs"),
        (
            {"tres_per_node": "gres:gpu:a100:1,gres:gpu:v100:2"},
            "gres: found gres:gpu:a100:1,gres:gpu:v100:2; allowed: GPUs of one type",
        ),
        ({"ExcNodes": "node1"}, "exclude: found node1; allowed: no nodes, as Muster chooses them"),
        ({"NumNodes": "2", "NumTasks": "2"}, "nodes: found 2 for a job without GPUs; allowed: one"),
        ({"ReqNodes": "node[2-3]"}, "nodelist: found node[2-3]; allowed: no nodes, as Muster chooses them"),
    ],
)
def test_what_muster_could_not_keep_is_named(columns: dict[str, str], words: str) -> None:
    jobs = NewJobs()
    assert jobs.find(row(**columns)) is None
    (found,) = jobs.untaken({7})
    assert words in found.words


@pytest.mark.parametrize("features", ["fast", "fast|a100-80", "rack:1"])
def test_features_of_slurm_are_labels_of_nodes(features: str) -> None:
    assert request_of(row(tres_per_job="gres:gpu:1", Feature=features)).constraint == f"label={features}"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"Feature": "fast&big"}, "constraint: found fast&big; allowed: a feature, or several with a bar"),
        ({"Feature": "[rack1*2&rack2]"}, "scontrol update jobid=7 Features=..."),
        (
            {"Feature": "fast", "tres_per_node": "gres:gpu:v100:1"},
            "found fast beside GPUs of type v100; allowed: one of the two. Hint: scontrol update jobid=7 Features=",
        ),
    ],
)
def test_other_features_keep_a_job_untaken(columns: dict[str, str], words: str) -> None:
    jobs = NewJobs()
    assert jobs.find(row(**columns)) is None
    (found,) = jobs.untaken({7})
    assert words in found.words


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"tres_per_job": "gres:gpu:2"},
            "min_gpus and max_gpus beside gpus: found gres:gpu:2; allowed: --gres",
        ),
        ({"tres_per_task": "gres:gpu:1", "NumTasks": "2"}, "beside gpus-per-task: found gres:gpu:1"),
        ({"tres_per_node": "gres:gpu:2", "NumTasks": "2"}, "beside ntasks: found 2"),
    ],
)
def test_sizes_beside_what_srun_keeps_are_named(columns: dict[str, str], words: str) -> None:
    """srun goes by the job's environment, which is that of its submission."""
    jobs = NewJobs()
    assert jobs.find(row(**columns, Comment="muster:min_gpus=1,max_gpus=4")) is None
    (found,) = jobs.untaken({7})
    assert words in found.words
    assert jobs.find(row(**columns, Comment="muster:min_gpus=2,max_gpus=2")) is not None
    assert jobs.find(row(tres_per_node="gres:gpu:2", Comment="muster:max_gpus=4")) is not None


def test_a_name_of_slurm_becomes_one_of_muster() -> None:
    assert request_of(row(tres_per_job="gres:gpu:1", Name="new\nline\x1f" + 200 * "x")).name == (
        "new?line?" + 191 * "x"
    )


def test_stated_cpus_and_memory_are_the_least() -> None:
    columns = {"tres_per_job": "gres:gpu:2", "NumNodes": "2", "NumTasks": "2", "cpus_per_task": "6"}
    request = request_of(row(**columns, MinMemory="4G"))
    assert (request.cpus, request.ranks) == (12, "per-gpu")
    assert request.memory_gb == pytest.approx(8.589934592)


@pytest.mark.parametrize(
    ("columns", "cpus"),
    [
        ({"tres_per_job": "gres:gpu:2"}, None),
        ({"tres_per_job": "gres:gpu:2", "NumTasks": "2"}, None),
        ({"tres_per_job": "gres:gpu:2", "NumTasks": "16"}, 16),
        ({"tres_per_job": "gres:gpu:2", "cpus_per_tres": "gres:gpu:8"}, 16),
        ({"tres_per_job": "gres/gpu:2", "cpus_per_tres": "gres/gpu:8"}, 16),
        ({"NumTasks": "4", "MinMemory": "1G"}, 4),
    ],
)
def test_cpus_stated_in_any_form_are_the_least(columns: dict[str, str], cpus: float | None) -> None:
    assert request_of(row(**columns)).cpus == cpus


def test_taken_jobs_are_known_after_a_restart(tmp_path: Path) -> None:
    job = Adopted("7@1700000000", 7, 1, "ann", {"name": "train"})
    AdoptedJobs(tmp_path / "submitted").keep(job)
    assert list(AdoptedJobs(tmp_path / "submitted")) == [job]


def test_of_jobs_of_an_older_version_the_last_run_is_unknown(tmp_path: Path) -> None:
    """What runs of them is Muster's, or not: nothing is concluded from its count of restarts."""
    AdoptedJobs(tmp_path).keep(Adopted("7@1700000000", 7, 1, "ann", {"name": "train"}, last_run=-1))
    (path,) = tmp_path.iterdir()
    fields = json.loads(path.read_text())
    del fields["last_run"]
    path.write_text(json.dumps(fields))
    assert [one.last_run for one in AdoptedJobs(tmp_path)] == [None]


def test_a_job_that_may_not_be_requeued_stays() -> None:
    assert request_of(row(tres_per_job="gres:gpu:1", Requeue="0")).preemptible is False


def test_options_stand_in_the_comment() -> None:
    comment = "muster: steps=40, model=resnet18,priority=-2.5,grace_seconds=8"
    request = request_of(row(tres_per_job="gres:gpu:1", Comment=comment))
    assert (request.steps, request.model, request.priority, request.grace_seconds) == (
        40,
        "resnet18",
        -2.5,
        8.0,
    )


@pytest.mark.parametrize("option", ["steps=many", "colour=red", "steps", "command=rm"])
def test_a_wrong_option_leaves_the_job_alone(option: str) -> None:
    assert NewJobs().find(row(tres_per_job="gres:gpu:1", Comment=f"muster:{option}")) is None


@pytest.mark.parametrize(
    "columns",
    [
        {"Comment": "other"},
        {"Comment": "muster:17@1700000000:3"},
        {"PriorityLong": "100"},
        {"State": "RUNNING"},
        {"Dependency": "afterok:3"},
        {"StartTime": "4000000000"},
        {"HetJobID": "7"},
        {"JobArrayID": "7_[1-3]"},
    ],
)
def test_only_marked_held_whole_jobs_are_taken(columns: dict[str, str]) -> None:
    taken = NewJobs().find(row(tres_per_job="gres:gpu:1"))
    assert taken is not None
    assert (taken.key, taken.user, taken.job) == ("7@1700000000", "ann", None)
    assert NewJobs().find(row(tres_per_job="gres:gpu:1", **columns)) is None


def test_who_passes_signals_on_depends_on_how_slurm_sends_them() -> None:
    assert passed_on("PrivateData             = none\nProctrackType           = proctrack/linuxproc\n") == ()
    assert "SIGTERM" in passed_on("PrivateData = none\nProctrackType           = proctrack/cgroup\n")


@pytest.mark.parametrize(
    ("said", "status"), [("", 0), ("19200", 75), ("9", -9), ("0:0", 0), ("75:0", 75), ("0:9", -9)]
)
def test_exit_codes_of_both_forms_are_read(said: str, status: int) -> None:
    assert SlurmJob(7, {"exit_code": said}).exit_status == status


def test_nodes_with_gpus_of_several_types_are_known() -> None:
    gres = ("gpu:v100:8(S:0-1)", "gpu:a100:4(S:0),gpu:t4:2", "gpu:8", "(null)")
    printed = "\n".join(f"NodeName=n{at} Arch=x86_64 Gres={one} OS=Linux" for at, one in enumerate(gres))
    assert of_several_types(printed) == {"n1"}


def test_an_untaken_job_is_named_until_it_is_put_right() -> None:
    """Or released, or gone."""
    wrong, right = row(Comment="muster:step=4"), row(Comment="muster:steps=4")
    for after, numbers in (
        (right, {7}),
        (row(Comment="muster:step=4", PriorityLong="9"), {7}),
        (wrong, set()),
    ):
        jobs = NewJobs()
        jobs.find(wrong)
        (found,) = jobs.untaken({7})
        assert (found.name, found.user) == ("job 7 of Slurm", "ann")
        assert found.words.startswith("comment: found step; allowed: ")
        jobs.find(after)
        assert not jobs.untaken(numbers)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("BadConstraints", "BadConstraints (the nodes that it was given do not have what it requests)"),
        ("QOSMaxGRESPerUser", "QOSMaxGRESPerUser (a limit of its account or QOS is reached)"),
        (
            "ReqNodeNotAvail, May be reserved",
            "ReqNodeNotAvail, May be reserved (a node that it was given cannot be used)",
        ),
        ("Slurm has not looked at it yet", "Slurm has not looked at it yet"),
    ],
)
def test_a_reason_of_slurm_has_its_meaning(reason: str, words: str) -> None:
    assert waiting_words(reason) == words


def test_what_slurm_refuses_for_all_is_not_the_jobs_fault() -> None:
    own = refusal("sbatch refused it: sbatch: error: Batch job submission failed: Invalid account")
    assert isinstance(own, StartRefused)
    assert str(own) == "sbatch refused it: Batch job submission failed: Invalid account"
    assert isinstance(refusal("sbatch: error: Unable to contact slurm controller"), SlurmError)


@pytest.mark.parametrize("reason", ["launch failed requeued held", "launch_failed_requeued_held"])
def test_a_failed_launch_is_not_a_hold_of_its_owner(reason: str) -> None:
    """Slurm holds such a job by itself."""
    assert row(Reason=reason).launch_failed
    assert not row(Reason="JobHeldUser").launch_failed


def test_a_slurm_conf_that_cannot_be_looked_up_is_named() -> None:
    """As in a folder that this account may not search; root may search all."""
    path = "/" + 300 * "x"
    with pytest.raises(
        SlurmError, match=f"no slurm.conf was found at {path}: File name too long. Hint: "
    ) as found:
        SlurmQueries(path).ask(["sinfo"])
    assert found.value.is_known
