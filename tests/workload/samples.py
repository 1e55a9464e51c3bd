"""Small files of every foreign form, made by hand; the tests state what must come out of them."""

from __future__ import annotations

import json

PHILLY_SIZES = """#job id,arrival time (sec),topology,shape,size,duration (sec)
0,100.0,CLOS,1,1,3600.0
1,250.0,CLOS,8+8,16,0.0
2,300.5,CLOS,1,1,12.5
"""

PHILLY_TENANTS = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,vc-a
2017-10-09 06:13:03,2951.0,2,5902.0,vc-b
2017-10-09 07:01:55,66.0,1,66.0,vc-a
2017-10-10 06:13:03,5.0,4,20.0,vc-a
"""


def philly_attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, object]:
    """An attempt on machines with so many GPUs each."""
    detail = [
        {"ip": f"m{at}", "gpus": [f"gpu{gpu}" for gpu in range(count)]} for at, count in enumerate(gpus)
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(name: str, submitted: str | None, *attempts: dict[str, object]) -> dict[str, object]:
    """A job of the published log."""
    form = {"status": "Pass", "vc": "vc-a", "jobid": name, "submitted_time": submitted, "user": "u1"}
    return form | {"attempts": list(attempts)}


DAY = "2017-10-03 "
PHILLY_LOG = json.dumps(
    [
        philly_job(
            "twice",
            DAY + "14:05:02",
            philly_attempt(DAY + "14:06:00", DAY + "14:07:00", 8, 8),
            philly_attempt(DAY + "15:00:00", DAY + "15:00:30", 8, 8),
        ),
        philly_job("first", DAY + "14:05:00", philly_attempt(DAY + "14:05:10", DAY + "14:05:10", 1)),
        philly_job("waiting", DAY + "14:05:00"),
        philly_job("running", DAY + "14:05:00", philly_attempt(DAY + "14:05:10", "None", 1)),
        philly_job("cpu", DAY + "14:05:00", philly_attempt(DAY + "14:05:10", DAY + "14:05:20")),
        philly_job("lost", "None", philly_attempt(DAY + "14:05:10", DAY + "14:05:20", 1)),
    ]
)

HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,8,64,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,50
12,u2,vcB,0,4,1,COMPLETED,2020-04-01 00:00:11,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,50
13,u2,vcB,1,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 00:01:00,0,50
14,u2,vcB,1,0,1,CANCELLED,2020-04-01 00:00:05,None,2020-04-01 00:01:00,0,50
15,u2,vcB,1,0,1,RUNNING,2020-04-01 00:00:05,2020-04-01 00:01:00,None,70,50
"""

OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,100,1000,150
p1,6000,0,1,460,V100M16|V100M32,LS,Succeeded,90,300,90
p2,6000,100,0,0,,BE,Running,50,300,90
p3,6000,100,1,500,,BE,Pending,50,300,
p4,6000,100,8,1000,T4,BE,Failed,120,130,130
"""

OPENB_NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,393216,8,G2
n2,64000,262144,2,P100
n3,94000,262144,0,
"""

ACME = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
11,u1,2,16,256,Pretrain,COMPLETED,2023-03-01 08:00:10+08:00,2023-03-01 08:01:00+08:00,2023-03-01 09:01:00+08:00,3600,50,57600.0
12,u2,1,0,4,Other,FAILED,2023-03-01 08:00:00+08:00,2023-03-01 08:01:00+08:00,2023-03-01 08:02:00+08:00,60,60,0.0
13,u2,1,1,0,Debug,CANCELLED,2023-03-01 08:00:00+08:00,2023-03-01 08:00:00+08:00,2023-03-01 08:00:00+08:00,0,0,0.0
14,u2,1,1,8,Debug,CANCELLED,2023-03-01 08:00:05+08:00,,2023-03-01 08:01:00+08:00,,,
15,u2,1,1,8,Debug,RUNNING,2023-03-01 08:00:06+08:00,2023-03-01 08:01:00+08:00,,0,54,0.0
"""  # noqa: E501
ACME_HEADER = "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
ACME_PODS = f"""{ACME_HEADER}start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlcx,u7,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlcy,u7,1,8,120,,100.0,SFT,COMPLETED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:30+00:00,2023-05-17 11:01:30+00:00,,,90,30.0,720.0
dlcz,u7,1,8,120,,100.0,SFT,CANCELLED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:30+00:00,,,,,30.0,
"""  # noqa: E501

SPOT_GPU = """job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
7,13,A10,20,1,1,0,3600,HP
8,57,A100-SXM4-80GB,15,1,16,60,0,Spot
9,57,A10,4,0.25,1,90,100,Spot
10,57,A10,4,0.75,3,95,100,Spot
11,57,,4,0,3,99,100,HP
"""

PAI = """j1,ps,1.0,Terminated,1000.0,1100.0,600.0,29.5,,
j1,worker,2.0,Failed,1010.0,1200.0,400.0,10.0,100.0,V100
j2,tensorflow,1.0,Terminated,900.0,960.0,600.0,29.5,50.0,MISC
j3,tensorflow,1.0,Running,950.0,,600.0,29.5,100.0,T4
j4,worker,3.0,Terminated,980.0,990.0,100.0,1.0,50.0,T4
j5,ps,3.0,Terminated,980.0,990.0,100.0,1.0,0.0,
j6,worker,3.0,Waiting,,,100.0,1.0,50.0,T4
"""

PODS_HEADER = "pod_id,workload_id,state_public,gpu_spec_public,priority_class,job_type_public,gpu_request"
HOURLY_PODS = f"""{PODS_HEADER},cpu_request_cores,day,hour
a,w1,Pending,H800,LP,training,2,16,0,23
b,,Running,A10,HP,dev,0.5,4,0,23
a,w1,Running,H800,LP,training,2,16,1,00
c,,Running,A10,HP,dev,1,4,1,00
d,,Running,A10,HP,dev,0,4,1,00
a,w1,Running,H800,LP,training,2,16,1,01
e,,Pending,A10,Other,dev,1,4,1,01
c,,Running,A10,HP,dev,1,4,1,02
"""

SWF = """; Version: 2.2
; UnixStartTime: 1000000000
; MaxProcs: 64
;
  1  0   10  100  8  -1  -1  8  600  2048  1  3  1  -1  1  2  -1  -1
  2  5   20  100  8  -1  -1  -1  50  -1  0  4  1  -1  1  -1  -1  -1
  3  6   -1  0  -1  -1  -1  4  50  -1  5  4  1  -1  1  -1  -1  -1
  4  7.5  0  0  1  -1  -1  0  -1  -1  1  4  -1  -1  -1  -1  -1  -1
  4  7.5  0  5  1  -1  -1  0  -1  -1  2  4  -1  -1  -1  -1  -1  -1
; a comment in between
  5  9   0  -1  1  -1  -1  1  -1  -1  1  4  -1  -1  -1  -1  -1  -1
  6  9   0  7  -1  -1  -1  -1  -1  -1  1  4  -1  -1  -1  -1  -1  -1
"""

SACCT_HEADER = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|ReqTRES|AllocTRES|ReqMem"
SACCT = f"""{SACCT_HEADER}
100|a "b|u1|lab|gpu|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:30|2024-03-02T12:03:34|1-02:03:04|billing=8,cpu=8,gres/gpu:v100=4,gres/gpu=4,mem=64G,node=1|billing=8,cpu=8,gres/gpu=4,mem=64G,node=1|64G
100.batch|batch||lab||COMPLETED|2024-03-01T10:00:30|2024-03-01T10:00:30|2024-03-02T12:03:34|1-02:03:04||cpu=8,gres/gpu=4,mem=64G,node=1|
100.extern|extern||lab||COMPLETED|2024-03-01T10:00:30|2024-03-01T10:00:30|2024-03-02T12:03:34|1-02:03:04||cpu=8,gres/gpu=4,mem=64G,node=1|
101_3|arr|u1|lab|gpu|CANCELLED by 1000|2024-03-01T09:59:00|2024-03-01T10:00:00|2024-03-01T10:01:30|00:01:30|cpu=2,mem=4000M,node=1|billing=2,cpu=2,gres/gpu:a100=1,gres/gpu:h100=1,mem=4000M,node=1|4000M
101_[4-9]|arr|u1|lab|gpu|PENDING|2024-03-01T09:59:00|Unknown|Unknown|00:00:00|cpu=2,gres/gpu=1,mem=4000M,node=1||4000M
102|cpu|u2|lab|cpu|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:30|2024-03-01T10:00:40|00:00:10|cpu=8,mem=64G,node=1|cpu=8,mem=64G,node=1|64G
103|never|u2|other|gpu|CANCELLED by 7|2024-03-01T10:00:00|None|2024-03-01T10:00:40|00:00:00|cpu=8,gres/gpu=2,mem=64G,node=1||64G
104|again|u2|other|gpu|NODE_FAIL|2024-03-01T10:00:00|2024-03-01T10:00:01|2024-03-01T10:00:40|00:00:39|cpu=8,gres/gpu=2,node=1||8Gc
104|again|u2|other|gpu|TIMEOUT|2024-03-01T10:00:00|2024-03-01T10:05:01|2024-03-01T10:05:01|00:00:00|cpu=8,gres/gpu=2,node=1||8Gc
"""  # noqa: E501


def slurm_job(
    number: int, state: object, submit: int, start: int, elapsed: object, *tres: tuple[str, str, object]
) -> dict[str, object]:
    """A job of `sacct --json`, its resources requested."""
    entries = [
        {"type": kind, "name": name or None, "id": at, "count": count}
        for at, (kind, name, count) in enumerate(tres)
    ]
    return {
        "job_id": number,
        "account": "lab",
        "association": {"account": "lab", "cluster": "c", "partition": None, "user": "u1"},
        "user": "u1",
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
        "state": {"current": state, "reason": "None"},
        "time": {"submission": submit, "start": start, "end": start + 1, "elapsed": elapsed},
        "tres": {"requested": entries, "allocated": []},
        "steps": [{"step": {"id": f"{number}.batch"}}],
    }


SACCT_JSON_OLD = json.dumps(
    {
        "meta": {"Slurm": {"version": {"major": 21, "minor": 8}}},
        "errors": [],
        "jobs": [
            slurm_job(
                1,
                "COMPLETED",
                1_700_000_100,
                1_700_000_200,
                3600,
                ("cpu", "", 8),
                ("mem", "", 65536),
                ("gres", "gpu", 4),
            )
            | {"array": {"job_id": 0, "task_id": None, "task": None}},
            slurm_job(2, "PENDING", 1_700_000_000, 0, 0, ("gres", "gpu", 4)),
            slurm_job(
                3, "FAILED", 1_700_000_000, 1_700_000_001, 0, ("gres", "gpu:a100", 2), ("gres", "gpumem", 4)
            ),
        ],
    }
)

SACCT_JSON_NEW = json.dumps(
    {
        "jobs": [
            slurm_job(
                5,
                ["COMPLETED"],
                1_700_000_100,
                1_700_000_200,
                {"set": True, "infinite": False, "number": 60},
                ("gres", "gpu", {"set": True, "infinite": False, "number": 2}),
                ("gres", "gpu:h100", 2),
            )
            | {"array": {"job_id": 4, "task_id": {"set": True, "infinite": False, "number": 7}}},
            slurm_job(6, ["CANCELLED", "REQUEUED"], 1_700_000_000, 0, 0, ("gres", "gpu", 1)),
            slurm_job(7, ["TIMEOUT"], 1_700_000_000, 1_700_000_010, 30, ("gres", "gpu", 1)) | {"account": ""},
        ]
    }
)

MAPPED = """name;arrival_s;num_gpu;run_s;team
x;10;2;100;blue
y;5;0;100;blue
z;7;1;0;red
"""
MAPPING = {"id": "name", "submit": "arrival_s", "gpus": "num_gpu", "duration": "run_s", "tenant": "team"}
