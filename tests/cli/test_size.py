"""`muster size`, as a user types it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from muster.cli.app import run
from muster.cli.failures import BAD_INPUT, OK

LIMIT = "gpu=8,cpu=64,memory_gb=256,nic=10Gbit/s"


def answered(arguments: str, capsys: pytest.CaptureFixture[str], status: int = OK) -> str:
    assert run(["size", *shlex.split(arguments)]) == status
    reply = capsys.readouterr()
    return reply.out if status == OK else reply.err


def document(arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(answered(f"{arguments} --json", capsys)))


def test_the_answer_is_the_least_of_the_surface(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"vgg16 --limit {LIMIT} --iterations 100", capsys)
    surface = found["completion_seconds_by_workers_and_servers"]
    pairs = {(w, p): s for w, row in enumerate(surface, 1) for p, s in enumerate(row, 1) if s is not None}
    assert found["completion_seconds"] == min(pairs.values()) == pairs[found["workers"], found["servers"]]
    # 4 CPU cores each, 64 in all; 16 and 8 GB each, 256 in all; a GPU a worker, 8 in all.
    within = {(w, p) for w in range(1, 9) for p in range(1, 64) if w + p <= 16 and 16 * w + 8 * p <= 256}
    assert set(pairs) == within
    thrifty = found["thrifty"]
    assert thrifty["completion_seconds"] == pairs[thrifty["workers"], thrifty["servers"]]
    assert thrifty["completion_seconds"] <= 1.05 * found["completion_seconds"]


def test_each_worker_has_a_sample_of_the_batch(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(f"vgg16 --limit {LIMIT} --batch 2", capsys)
    assert len(found["completion_seconds_by_workers_and_servers"]) == 2
    assert found["workers"] == 2
    ring = "vgg16 --sync ring --cluster 2x8gpu,64cpu,500gb --limit gpu=8 --batch 3"
    assert [one["workers"] for one in document(ring, capsys)["by_workers"]] == [1, 2, 3]
    assert "has room for" not in answered(ring, capsys)


def test_one_worker_and_one_server_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    # Forward 256 samples, backward twice the work of 32, each 2 x 15.47 x 10^9 operations at 10^12 a second.
    limit = "gpu=1,cpu=8,nic=1000Gbit/s"
    found = document(f"vgg16 --limit {limit} --gpu-tflops 1 --iterations 1", capsys)
    assert (found["workers"], found["servers"]) == (1, 1)
    assert found["completion_seconds"] == pytest.approx((256 + 64) * 2 * 15.47026432e9 / 1e12, rel=1e-5)
    # On the slow NIC all 138 million parameters are exposed, there and back.
    slow = document("vgg16 --limit gpu=1,cpu=8,nic=8MB/s --gpu-tflops 1000 --iterations 1", capsys)
    assert slow["completion_seconds"] == pytest.approx(2 * 138_357_544 * 4 / 8e6, rel=1e-3)


def test_staleness_and_profiles(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(
        "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes\n"
        "net,100000000,0,100000000,100000000\n"
        "net,100000000,100000000,0,100000000\n"
    )
    base = f"net --layers {path} --profile-batch 10 --batch 10 --iterations 1 --limit gpu=1,cpu=8,nic=1GB/s"
    # 0.2 s forward, 0.1 s and 0.1 s backward, 0.2 s and 0.2 s there and back: 0.3 + max(0.1, 0.2) + 0.2.
    assert document(base, capsys)["completion_seconds"] == pytest.approx(0.7)
    # With an iteration more in flight: the larger of 0.4 s of compute, 0.4 s of channel and 0.7 s / 2.
    assert document(f"{base} --staleness 1", capsys)["completion_seconds"] == pytest.approx(0.4)


def test_text_table_and_chart_of_servers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = answered(f"resnet50 --limit {LIMIT} --table --chart {tmp_path / 'a.svg'}", capsys)
    assert shown.startswith("resnet50: ")
    assert "completion time by servers" in shown
    assert "8 gpu" in shown
    answered(f"resnet50 --limit {LIMIT} --chart {tmp_path / 'b.svg'}", capsys)
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    assert "Parameter servers" in drawn
    answered(f"resnet50 --limit {LIMIT} --chart {tmp_path / 'c.png'}", capsys)
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", ["", "--sync ring --cluster 4x8gpu"])
def test_a_chart_that_exists_is_kept_unless_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shape: str
) -> None:
    drawn = tmp_path / "a.svg"
    drawn.write_text("older")
    asked = f"resnet50 --limit {'gpu=8' if shape else LIMIT} {shape} --chart {drawn}"
    refused = answered(asked, capsys, BAD_INPUT)
    assert refused == f"{drawn}: the file exists; allowed: another name, or --overwrite\n"
    assert drawn.read_text() == "older"
    answered(f"{asked} --overwrite", capsys)
    assert drawn.read_text().startswith("<svg")


def test_large_limits_keep_the_table_small(capsys: pytest.CaptureFixture[str]) -> None:
    shown = answered("resnet50 --limit gpu=300,cpu=4000,nic=25Gbit/s --table", capsys)
    assert len(shown.splitlines()) < 40


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            "vgg17 --limit gpu=8,cpu=x,nic=0,foo=1,gpu=2 --chart a.pdf --iterations 0",
            [
                "--chart: found 'a.pdf'",
                "--iterations: found 0",
                "MODEL: found 'vgg17'; allowed: alexnet",
                "cpu: found 'x'; allowed: a number",
                "nic: found '0'; with no bandwidth no gradient arrives",
                "found 'foo=1'; allowed: NAME=QUANTITY",
                "gpu is given twice",
            ],
        ),
        (f"vgg16 --limit {LIMIT} --overwrite", ["--overwrite: it is of the file of --chart"]),
        ("vgg16 --limit cpu=8", ["--limit: found 'cpu=8'; gpu is missing", "nic is missing"]),
        (
            "vgg16 --limit gpu=1,cpu=6,nic=1Gbit/s",
            ["one worker and one server need 8 cpu, more than the limit"],
        ),
        ("vgg16 --limit gpu=1,nic=1Gbit/s", ["must each need some of a limited resource"]),
        ("vgg16 --limit gpu=1000000,cpu=8000000,nic=1Gbit/s", ["more than 10,000,000 pairs"]),
        ("vgg16 --limit gpu=1,cpu=8,nic=-1", ["nic: found '-1'"]),
        ("vgg16 --limit gpu=nan,cpu=8,nic=1", ["the gpu of a limit must be a finite number"]),
        (
            f"vgg16 --limit {LIMIT} --batch 0 --gpu-tflops 0",
            ["--batch: found 0; allowed: a whole number", "--gpu-tflops: found 0"],
        ),
        (
            f"vgg16 --limit {LIMIT} --staleness -1",
            ["--staleness: found -1; allowed: a whole number from 0 on"],
        ),
        (f"vgg16 --limit {LIMIT} --profile-batch 8", ["--profile-batch: found 8; it is of a file of layers"]),
        (f"vgg16 --limit {LIMIT} --layers no.csv --gpu-tflops 1", ["--gpu-tflops: found 1.0; the times of"]),
        (f"vgg16 --limit {LIMIT} --layers nowhere.csv", ["nowhere.csv: there is no such file"]),
        (
            f"vgg16 --limit {LIMIT} --losses nowhere.csv",
            ["--target-loss: this flag is missing; --losses requires it"],
        ),
        (
            f"vgg16 --limit {LIMIT} --target-loss 1",
            ["--losses: this flag is missing; --target-loss requires it"],
        ),
        (
            f"vgg16 --limit {LIMIT} --losses nowhere.csv --target-loss 1",
            ["nowhere.csv: there is no such file"],
        ),
        (
            f"vgg16 --limit {LIMIT} --losses nowhere.csv --target-loss 1 --iterations 10000",
            ["--iterations: found 10000; --losses says how many are left; leave one of the two out"],
        ),
    ],
)
def test_mistakes_are_explained(arguments: str, parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    reply = answered(arguments, capsys, BAD_INPUT)
    for part in parts:
        assert part in reply
    assert "Traceback" not in reply


def test_one_iteration_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 iteration in " in answered(f"vgg16 --limit {LIMIT} --iterations 1", capsys)


def losses_file(folder: Path, losses: list[float]) -> Path:
    path = folder / "losses.csv"
    path.write_text("step,loss\n" + "".join(f"{10 * at},{loss}\n" for at, loss in enumerate(losses)))
    return path


def test_a_job_is_sized_for_what_is_left_to_a_loss(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # 1 / (0.001 k + 0.7) + 0.1 is 0.5 after 1,800 steps, of which 990 are done.
    path = losses_file(tmp_path, [1 / (0.01 * at + 0.7) + 0.1 for at in range(100)])
    found = document(f"vgg16 --limit {LIMIT} --losses {path} --target-loss 0.5", capsys)
    assert found["iterations"] == pytest.approx(810, rel=0.02)
    assert found["completion_seconds"] == pytest.approx(found["iterations"] * found["iteration_seconds"])


@pytest.mark.parametrize(
    ("losses", "target", "reply"),
    [
        ([1.0, 1.1, 1.2, 1.3], 0.5, "the losses do not fall"),
        ([2.0, 1.5, 1.2, 1.1, 1.05, 1.02], 0.01, "their curve flattens"),
        (
            [2.0, 1.5, 1.2, 1.1, 1.05, 1.02],
            1.5,
            "the losses have reached it: by their curve no iteration is left",
        ),
        ([2.0, 1.0], 0.5, "at least three steps"),
        ([2.0, -1.0, 0.5], 0.1, "for losses above 0"),
    ],
)
def test_losses_that_lead_nowhere_are_refused(
    losses: list[float], target: float, reply: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = losses_file(tmp_path, losses)
    shown = answered(f"vgg16 --limit {LIMIT} --losses {path} --target-loss {target}", capsys, BAD_INPUT)
    assert reply in shown


def test_a_losses_file_is_read_strictly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text("step,loss\n0,x\n1\n")
    shown = answered(f"vgg16 --limit {LIMIT} --losses {path} --target-loss 1", capsys, BAD_INPUT)
    assert ":2: " in shown
    assert ":3: " in shown
    path.write_text("iteration,value\n0,1\n")
    shown = answered(f"vgg16 --limit {LIMIT} --losses {path} --target-loss 1", capsys, BAD_INPUT)
    assert "allowed: the columns step and loss" in shown


def test_a_layer_file_may_say_its_batch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes{}\nMine,64e6,1e6,1e6,4e6{}\n"
    (tmp_path / "reply.csv").write_text(rows.format(",batch", ",64"))
    (tmp_path / "not.csv").write_text(rows.format("", ""))
    reply = document(f"Mine --limit {LIMIT} --layers {tmp_path / 'reply.csv'}", capsys)
    flagged = document(f"Mine --limit {LIMIT} --layers {tmp_path / 'not.csv'} --profile-batch 64", capsys)
    assert reply == flagged
    shown = answered(f"Mine --limit {LIMIT} --layers {tmp_path / 'not.csv'}", capsys, BAD_INPUT)
    assert "a column batch, or --profile-batch" in shown


RING_LAYERS = (
    "model,fwd_ns,input_grad_ns,weight_grad_ns,allreduce_bytes,batch\n"
    "mine,8e7,2e7,2e7,4e8,32\nmine,6e7,3e7,1e7,1e9,32\nmine,2e7,1e7,1e7,2e8,32\n"
)


def test_a_ring_gets_the_fewest_workers_that_are_fastest(capsys: pytest.CaptureFixture[str]) -> None:
    found = document("vgg16 --sync ring --cluster 2x8gpu,32cpu --limit gpu=12,cpu=40 --iterations 10", capsys)
    rows = found["by_workers"]
    assert [row["workers"] for row in rows] == list(range(1, 11))
    assert all(sum(map(int, row["place"].split(","))) == row["workers"] for row in rows)
    best = min(rows, key=lambda row: row["completion_seconds"])
    assert found["workers"] == best["workers"]
    assert found["place"] == best["place"]
    assert found["completion_seconds"] == best["completion_seconds"] == 10 * best["iteration_seconds"]
    assert sum(found["stage_seconds"].values()) == pytest.approx(best["iteration_seconds"])
    # 32 cores hold eight workers of four each.
    assert [row["place"] for row in rows[7:]] == ["8", "5,4", "5,5"]
    assert found["usage"] == {"gpu": best["workers"], "cpu": 4 * best["workers"]}


@pytest.mark.parametrize("workers", [1, 2, 6, 8, 11, 16, 24])
def test_a_ring_s_step_is_what_muster_network_says_of_its_place(
    workers: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where each worker has as many samples as were profiled."""
    path = tmp_path / "layers.csv"
    path.write_text(RING_LAYERS)
    arguments = f"mine --layers {path} --sync ring --cluster dally-2x8x8 --limit gpu={workers}"
    row = document(f"{arguments} --batch {32 * workers} --worker gpu=1", capsys)["by_workers"][-1]
    place = ["--placement", row["place"], "--cluster", "dally-2x8x8", "--json"]
    assert run(["network", "mine", "--layers", str(path), *place]) == OK
    (reply,) = json.loads(capsys.readouterr().out)["placements"]
    assert row["workers"] == reply["gpus"] == workers
    assert row["iteration_seconds"] == pytest.approx(reply["iteration_seconds"], rel=1e-12)


def test_a_ring_is_described_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = answered(
        f"vgg16 --sync ring --cluster 4x8gpu --limit gpu=32 --table --chart {tmp_path / 'a.svg'}", capsys
    )
    assert shown.startswith("vgg16: 24 workers in a ring\n")
    assert "runs on 4 machines (6,6,6,6) of 4x8gpu" in shown
    assert "4x8gpu has room for 24 such workers, the limit for more" in shown
    assert "completion" in shown
    assert "Workers" in (tmp_path / "a.svg").read_text()
    alone = answered("vgg16 --sync ring --cluster 1x1gpu,8cpu --limit gpu=4", capsys)
    assert alone.startswith("vgg16: 1 worker, alone\n")


def test_a_ring_says_where_its_seconds_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where they hold beside another compute than the one that they were fitted with."""
    shown = answered("resnet50 --sync ring --cluster 4x8gpu --limit gpu=8", capsys)
    said = (
        "an iteration computes for 0.6783 s here in place of 0.01165, and exposed communication takes as much"
    )
    assert said in shown
    assert answered("vgg16 --sync ring --cluster 4x8gpu --limit gpu=8 --gpu-tflops 7", capsys).endswith(
        "its layers by their definition, on a GPU of 7 TFLOP/s\n"
    )
    assert document("pollux-imagenet --sync ring --cluster 4x8gpu --limit gpu=8", capsys)[
        "origin"
    ].startswith("own fit to the measured placements of imagenet in the profiles of Pollux")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            "vgg17 --sync ring --limit gpu=8,nic=1Gbit/s --server cpu=2 --staleness 1",
            [
                "--server: found 'cpu=2'; a ring has no servers",
                "--staleness: found 1; the workers of a ring wait for each other",
                "found 'nic=1Gbit/s'; allowed: NAME=QUANTITY, NAME being gpu, cpu, memory_gb",
                "MODEL: found 'vgg17'; allowed: alexnet",
                "--cluster: a ring goes by the links between its workers",
            ],
        ),
        (
            "vgg16 --sync tree --limit gpu=8,nic=1Gbit/s",
            ["--sync: found 'tree'; allowed: ps (parameter servers) or ring"],
        ),
        (
            f"vgg16 --cluster smd --limit {LIMIT}",
            ["--cluster: found 'smd'; servers go by the nic of --limit"],
        ),
        ("vgg16 --sync ring --cluster 2x4gpu --limit gpu=8 --worker gpu=5", ["no machine of cluster 2x4gpu"]),
        (
            "vgg16 --sync ring --cluster 2x4gpu --limit gpu=8 --worker gpu=0.5",
            ["a worker of a ring has whole GPUs"],
        ),
        (
            "vgg16 --sync ring --cluster 2x4gpu --limit gpu=8,cpu=3",
            ["one worker needs 4 cpu, more than the limit"],
        ),
        ("vgg16 --sync ring --cluster 2x4gpu --limit gpu=8 --batch 0", ["batch: found 0"]),
        ("vgg16 --sync ring --cluster nowhere.toml --limit gpu=8", ["nowhere.toml"]),
    ],
)
def test_mistakes_about_rings_are_explained(
    arguments: str, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reply = answered(arguments, capsys, BAD_INPUT)
    for part in parts:
        assert part in reply
    assert "Traceback" not in reply


def test_a_worker_that_waits_for_its_input_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A ViT on an H200 waits for its input with all cores that were measured: one worker, 64 samples, 33.3 ms."""
    asked = "vit-b16-h200 --sync ring --cluster dally-2x8x8 --limit gpu=1 --batch 64 --iterations 100"
    found = document(asked, capsys)
    assert found["iteration_seconds"] == pytest.approx(0.033344)
    assert found["stage_seconds"]["compute"] == pytest.approx(0.02723)
    assert sum(found["stage_seconds"].values()) == pytest.approx(0.033344)
    assert "18.3 % of it waits for input, on the most CPUs that were measured" in answered(asked, capsys)
