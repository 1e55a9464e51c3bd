"""Settings of the preset `slurm` from `scontrol show config` and slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.problems import InputError
from muster.schedulers.registry import build
from muster.slurm_config import SlurmConfig, read_slurm_config

SCONTROL = """Configuration data as of 2024-05-01T10:00:00
ClusterName             = c
KillWait                = 30 sec
PreemptType             = preempt/none
PriorityCalcPeriod      = 00:05:00
PriorityDecayHalfLife   = 7-00:00:00
PriorityFavorSmall      = No
PriorityMaxAge          = 14-00:00:00
PriorityType            = priority/multifactor
PriorityWeightAge       = 1000
PriorityWeightFairShare = 10000
PriorityWeightTRES      = CPU=1000,GRES/gpu=3000,license/x=5
SchedulerParameters     = bf_interval=60,bf_window=2880,bf_continue,bf_max_job_user=10
SchedulerType           = sched/backfill
SelectType              = select/cons_tres
"""
PREEMPTION = """JobRequeue              = 1
PreemptMode             = GANG,REQUEUE
PreemptType             = preempt/partition_prio
PreemptExemptTime       = 00:20:00
PriorityType            = priority/basic
SchedulerParameters     = preempt_youngest_first,preempt_reorder_count=3
PartitionName=high
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   PriorityJobFactor=1 PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF

PartitionName=low
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=60 Hidden=NO
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=CANCEL
"""
QOS = """PreemptMode=SUSPEND,GANG
PreemptType=preempt/qos
PriorityType=priority/basic
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags
normal|10|00:00:00|standby||cluster|
urgent|100|00:00:00|normal,standby||cluster|
standby|0|00:01:00||00:05:00|requeue|
"""
SLURM_CONF = """ClusterName=c  # ours
#PriorityType=priority/basic
PriorityType=priority/multifactor
PriorityWeightQOS=500
PreemptType=preempt/qos
SchedulerParameters=bf_resolution=300,\\
  default_queue_depth=50
NodeName=n[1-8] Gres=gpu:8
PartitionName=gpu Nodes=ALL PriorityJobFactor=10 TRESBillingWeights="GRES/gpu=1.0,CPU=0.25"
PartitionName=long Nodes=ALL PriorityJobFactor=1 TRESBillingWeights="GRES/gpu=1.0,CPU=0.25"
"""


def read(folder: Path, text: str) -> SlurmConfig:
    path = folder / "slurm.conf"
    path.write_text(text)
    found = read_slurm_config(path)
    build("slurm", found.settings)  # The preset takes them all.
    return found


def test_scontrol_show_config_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, SCONTROL)
    assert found.settings == {
        "bf_interval": "60",
        "bf_window_seconds": "172800",
        "kill_wait": "30",
        "weight_age": "1000",
        "weight_fair_share": "10000",
        "max_age_seconds": "1209600",
        "half_life_seconds": "604800",
        "calc_period_seconds": "300",
        "favor_small": "false",
        "weight_tres": "cpu:1000,gpu:3000",
    }
    assert found.notes == (
        "SchedulerParameters that are not simulated: bf_max_job_user",
        "PriorityWeightTRES that are not simulated: license/x=5",
    )


def test_slurm_conf_is_read_with_its_partitions(tmp_path: Path) -> None:
    found = read(tmp_path, SLURM_CONF)
    assert found.settings == {
        "bf_resolution": "300",
        "default_queue_depth": "50",
        "weight_qos": "500",
        "partition_priority": "gpu:10,long:1",
        "billing": "gpu:1.0,cpu:0.25",
        "preempt": "qos",
        "preempt_mode": "requeue",
    }
    assert len(found.notes) == 1
    assert "add the output of sacctmgr -P show qos" in found.notes[0]


def test_preemption_is_read_with_its_partitions(tmp_path: Path) -> None:
    found = read(tmp_path, PREEMPTION)
    assert found.settings == {
        "preempt": "partition_prio",
        "preempt_mode": "requeue",
        "preempt_exempt_seconds": "1200",
        "preempt_youngest_first": "true",
        "preempt_reorder_count": "3",
        "priority_tier": "high:10",
        "partition_preempt_mode": "high:off,low:cancel",
        "partition_priority": "high:1,low:1",
    }
    assert found.notes == (
        "PreemptMode=GANG is not simulated",
        "GraceTime of low is not simulated; preempted jobs stop at once",
    )


def test_preemption_is_read_with_its_qos(tmp_path: Path) -> None:
    found = read(tmp_path, QOS)
    assert found.settings == {
        "preempt": "qos",
        "preempt_mode": "off",
        "qos_priority": "normal:10,urgent:100",
        "qos_preempt": "normal:standby,urgent:normal/standby",
        "qos_preempt_mode": "standby:requeue",
        "qos_preempt_exempt": "standby:300",
    }
    assert found.notes == (
        "PreemptMode=SUSPEND is not simulated; these jobs are not preempted",
        "PreemptMode=GANG is not simulated",
        "GraceTime of standby is not simulated; preempted jobs stop at once",
    )


def test_defaults_of_partitions_and_no_requeue_count(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "ClusterName=c\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nJobRequeue=0\n"
        "PartitionName=DEFAULT PriorityTier=3\nPartitionName=a Nodes=ALL\nPartitionName=b Nodes=ALL PriorityTier=9\n",
    )
    assert found.settings == {
        "preempt": "partition_prio",
        "preempt_mode": "cancel",
        "priority_tier": "a:3,b:9",
    }
    assert found.notes == ("JobRequeue=0: preempted jobs are cancelled, also those with --requeue",)


def test_other_kinds_of_preemption_are_named(tmp_path: Path) -> None:
    found = read(tmp_path, "ClusterName=c\nPreemptType=preempt/own\n")
    assert not found.settings
    assert found.notes == ("PreemptType=preempt/own is not simulated; the preset has preempt/none",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 300), ("01:30", 90), ("02:00:00", 7200), ("1-12", 129_600), ("1-00:30", 88_200)],
)
def test_times_are_read_as_slurm_writes_them(tmp_path: Path, text: str, seconds: int) -> None:
    found = read(tmp_path, f"PriorityType=priority/multifactor\nPriorityMaxAge={text}\n")
    assert found.settings["max_age_seconds"] == str(seconds)


def test_other_files_and_odd_times_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither `scontrol show config` nor"):
        read(tmp_path, "a = b\n")
    with pytest.raises(InputError, match="PriorityMaxAge: found 'soon'"):
        read(tmp_path, "PriorityType=priority/multifactor\nPriorityMaxAge=soon\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_slurm_config(tmp_path / "none.conf")
    with pytest.raises(
        InputError, match="SchedulerParameters: found 'bf_interval=soon'; allowed: a whole number"
    ):
        read(tmp_path, "ClusterName=c\nSchedulerParameters=bf_interval=soon\n")


LIMITS = """ClusterName = c
AccountingStorageEnforce = associations,limits,qos,safe
Licenses = matlab:10
OverTimeLimit = 10 min
PriorityFlags = DEPTH_OBLIVIOUS,SMALL_RELATIVE_TO_TIME
PriorityType = priority/multifactor
PriorityUsageResetPeriod = MONTHLY
PriorityWeightAssoc = 500
SelectTypeParameters = CR_CORE_MEMORY,CR_LLN

PartitionName=gpu
   AllowGroups=ALL AllowAccounts=lab,lab2 AllowQos=normal,high
   AllocNodes=ALL Default=YES QoS=partqos
   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=1 MaxTime=04:00:00 MinNodes=2 LLN=NO MaxCPUsPerNode=24
   Nodes=n[1-2]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=FORCE:4
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=96 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED

PartitionName=old
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   State=DOWN TotalCPUs=96 TotalNodes=2 TRESBillingWeights=CPU=1.0

ReservationName=maint StartTime=2024-03-02T00:00:00 EndTime=2024-03-03T00:00:00 Duration=1-00:00:00
   Nodes=n2 NodeCnt=1 CoreCnt=48 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES

Name|Priority|Preempt|Flags|UsageFactor|GrpTRES|MaxWall|MaxTRESPU|MaxJobsPU
normal|0|||1.000000||||
high|100|||1.000000|gres/gpu=8|02:00:00|gres/gpu=4|2
partqos|0|||0.500000|||gres/gpu=4|
"""


def test_what_limits_jobs_and_is_not_simulated_is_named(tmp_path: Path) -> None:
    assert read(tmp_path, LIMITS).notes == (
        "settings of partitions that are not simulated: AllowAccounts=lab,lab2 (gpu), AllowQos=normal,high (gpu), "
        "QoS=partqos (gpu), MaxNodes=1 (gpu), MaxTime=04:00:00 (gpu), MinNodes=2 (gpu), "
        "MaxCPUsPerNode=24 (gpu), OverSubscribe=FORCE:4 (gpu), State=DOWN (old)",
        "settings of QOS that are not simulated: GrpTRES=gres/gpu=8 (high), MaxWall=02:00:00 (high), "
        "MaxTRESPU=gres/gpu=4 (high, partqos), MaxJobsPU=2 (high), UsageFactor=0.500000 (partqos)",
        "AccountingStorageEnforce=associations,limits,qos,safe: limits of accounts and QOS are not simulated",
        "Licenses=matlab:10 is not simulated",
        "OverTimeLimit=10 min is not simulated; jobs are taken to end at their limits",
        "SelectTypeParameters that are not simulated: CR_LLN",
        "PriorityFlags that are not simulated: DEPTH_OBLIVIOUS, SMALL_RELATIVE_TO_TIME",
        "PriorityWeightAssoc=500 is not simulated",
        "PriorityUsageResetPeriod=MONTHLY is not simulated",
        "TRESBillingWeights that differ between partitions are not simulated; usage counts GPUs",
        "reservations are not simulated: maint",
    )


def test_an_included_file_is_named(tmp_path: Path) -> None:
    (note,) = read(tmp_path, "ClusterName=c\nInclude parts.conf\n").notes
    assert note.startswith("Include parts.conf is not followed")
