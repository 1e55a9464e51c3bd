"""Each finding on a site made by hand, where what it says can be computed with a pencil."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muster.advise import FOUND, NOT_JUDGED, NOTHING, QUESTIONS, Finding, occupancy, read_site, trials_of
from muster.advise.trial import Waits
from muster.parallel import run_all

from .sites import HEADER, job, node, site, site_and_notes

NODES = (node("n1"), node("n2"))


def judged(name: str, folder: Path, jobs: list[str], nodes: tuple[str, ...] = NODES) -> Finding:
    return QUESTIONS[name](site(folder, jobs, nodes))


def saved(finding: Finding) -> tuple[float, float]:
    assert finding.saving is not None
    return finding.saving.low, finding.saving.high


def test_cpus_of_a_job_without_gpus_strand_gpus(tmp_path: Path) -> None:
    # The job without GPUs takes all CPUs of n1 for an hour; job 3 waits for 51 minutes after its first minute.
    jobs = [
        job("1", (0, 0, 60), "n1", 0, 8),
        job("2", (0, 0, 60), "n2", 4, 4),
        job("3", (0, 52, 60), "n2", 2, 2),
    ]
    found = judged("stranded-gpus", tmp_path, jobs)
    assert found.status == FOUND
    assert saved(found) == pytest.approx((0.0, 2 * 51 / 60))
    assert found.rows[0] == ("ann", "1 job", "8.00")
    assert "3.40 GPU-hours" in found.title  # Four GPUs lay free there, and two were wanted.


def test_free_gpus_with_free_cpus_are_not_stranded(tmp_path: Path) -> None:
    jobs = [job("1", (0, 0, 60), "n1", 2, 2), job("2", (0, 30, 60), "n1", 2, 2)]
    assert judged("stranded-gpus", tmp_path, jobs).status == NOTHING


def test_a_request_counts_against_what_steps_used(tmp_path: Path) -> None:
    # 8 cores for an hour, of which 2 were used: 6 are free, 5 if the job keeps half as much again.
    jobs = [job("1", (0, 0, 60), "n1", 1, 8, total_cpu="02:00:00")]
    found = judged("oversized-requests", tmp_path, jobs)
    assert (found.status, found.jobs) == (FOUND, 1)
    assert saved(found) == pytest.approx((5.0, 6.0))


def test_a_request_near_its_use_is_no_finding(tmp_path: Path) -> None:
    jobs = [job("1", (0, 0, 60), "n1", 1, 8, total_cpu="07:00:00")]
    assert judged("oversized-requests", tmp_path, jobs).status == NOTHING


def test_idle_gpus_are_a_range_where_tasks_are_added(tmp_path: Path) -> None:
    # 80 % of one of four GPUs, or of all: 0.8 to 3.2 GPUs were busy for an hour.
    jobs = [job("1", (0, 0, 60), "n1", 4, 4, average="gres/gpuutil=80")]
    assert saved(judged("idle-gpus", tmp_path, jobs)) == pytest.approx((0.8, 3.2))


def test_a_job_without_cpu_time_may_leave_gpus_idle(tmp_path: Path) -> None:
    jobs = [
        job("1", (0, 0, 60), "n1", 4, 4, total_cpu="00:00:10"),
        job("2", (0, 0, 60), "n2", 4, 4, total_cpu="01:00:00"),
    ]
    assert saved(judged("idle-gpus", tmp_path, jobs)) == pytest.approx((0.0, 4.0))


def test_scattered_gpus_keep_a_job_waiting(tmp_path: Path) -> None:
    # Two free GPUs on each node; job 3 wants four on one node and waits for 29 minutes after its first.
    jobs = [
        job("1", (0, 0, 30), "n1", 2, 2),
        job("2", (0, 0, 30), "n2", 2, 2),
        job("3", (0, 30, 60), "n1", 4, 4),
    ]
    found = judged("fragmentation", tmp_path, jobs)
    assert saved(found) == pytest.approx((0.0, 29 / 60))
    assert [row[0] for row in found.rows] == ["3"]


def test_a_gang_of_two_nodes_is_not_kept_by_fragments(tmp_path: Path) -> None:
    # Job 3 asks for two GPUs on each of two nodes: nothing but CPUs keeps it, which is no fragmentation.
    jobs = [
        job("1", (0, 0, 30), "n1", 2, 2),
        job("2", (0, 0, 30), "n2", 2, 2),
        job("3", (0, 30, 60), "n1,n2", 4, 4),
    ]
    assert judged("fragmentation", tmp_path, jobs).status == NOTHING


def test_free_gpus_of_another_type_are_no_fragments(tmp_path: Path) -> None:
    # Job 4 waits for four a100, all of which job 1 holds; two h100 are free on each of two other nodes.
    nodes = (node("n1", gpus="a100:4"), node("n2", gpus="h100:4"), node("n3", gpus="h100:4"))
    jobs = [
        job("1", (0, 0, 30), "n1", 4, 4, type="a100"),
        job("2", (0, 0, 30), "n2", 2, 2, type="h100"),
        job("3", (0, 0, 30), "n3", 2, 2, type="h100"),
        job("4", (0, 30, 60), "n1", 4, 4, type="a100"),
        job("5", (0, 30, 60), "n2", 4, 4, type="h100"),
    ]
    assert [row[0] for row in judged("fragmentation", tmp_path, jobs, nodes).rows] == ["5"]


@pytest.mark.parametrize("name", ["fragmentation", "walled-partitions"])
def test_a_job_needs_as_many_nodes_as_its_partition_has_it(tmp_path: Path, name: str) -> None:
    # Partition a has nodes of four GPUs and room for job 2 on both of them, whatever partition b has.
    nodes = (*NODES, node("n3", gpus=8, partitions="b"), node("n4", gpus=8, partitions="b"))
    jobs = [job("1", (0, 0, 60), "n3", 1, 1, partition="b"), job("2", (0, None, None), "", 8, 8)]
    assert judged(name, tmp_path, jobs, nodes).status == NOTHING


def test_a_job_that_never_ran_asks_for_a_type_too(tmp_path: Path) -> None:
    # Job 3 waits for a100 in partition a to the end of the log; partition b has h100.
    nodes = (node("n1", gpus="a100:4"), node("n2", gpus="h100:4", partitions="b"))
    jobs = [
        job("1", (0, 0, 60), "n1", 4, 4, type="a100"),
        job("2", (0, 0, 1), "n2", 4, 4, type="h100", partition="b"),
        job("3", (0, None, None), "", 4, 4, type="a100"),
    ]
    assert judged("walled-partitions", tmp_path, jobs, nodes).status == NOTHING


def test_jobs_of_another_partition_want_no_stranded_gpus(tmp_path: Path) -> None:
    # Job 1 takes all CPUs of n1, in a; job 3 waits in b, whose node is full.
    nodes = (node("n1"), node("n2", partitions="b"))
    jobs = [
        job("1", (0, 0, 60), "n1", 0, 8),
        job("2", (0, 0, 30), "n2", 4, 4, partition="b"),
        job("3", (0, 30, 60), "n2", 4, 4, partition="b"),
    ]
    assert judged("stranded-gpus", tmp_path, jobs, nodes).status == NOTHING


def test_more_nodes_are_tried_with_jobs_that_fit_today(tmp_path: Path) -> None:
    # Job 3 needs three nodes: with a third one it would run, and others would wait for it.
    jobs = [job(str(at), (0, 30 * at, 30 * at + 30), "n1,n2", 8, 8) for at in range(3)]
    jobs += [job("3", (1, 90, 150), "n1,n2", 12, 12)]
    jobs += [job(str(at), (2, 30 * at, 30 * at + 30), "n1", 4, 4) for at in (5, 6)]
    today, notes = site_and_notes(tmp_path, jobs, NODES)
    assert "1 job that the cluster of now cannot hold: not simulated" in [note for _, note in notes]
    assert today.newest.jobs["job_id"].to_list() == ["0", "1", "2", "5", "6"]
    assert today.twin is not None
    assert today.twin.jobs == 5
    found = QUESTIONS["more-nodes"](today)
    without = QUESTIONS["more-nodes"](site(tmp_path, [*jobs[:3], *jobs[4:]], NODES))
    assert found.rows[0][3] != "0 s"
    assert found.rows == without.rows


def test_a_log_too_large_for_the_cluster_says_so(tmp_path: Path) -> None:
    # The cluster states no CPUs, so that its node is taken to have 12 of them; the job asks for 13.
    log = tmp_path / "sacct.txt"
    log.write_text("\n".join([HEADER, job("1", (0, 0, 60), "n1", 4, 13)]) + "\n")
    found, notes = read_site(log, "1x4gpu")
    of_cluster = [note for source, note in notes if source == "1x4gpu"]
    assert of_cluster[0].startswith("it does not state all resources of its nodes: assumed 3 CPU cores, ")
    assert of_cluster[1:] == ["1 job that the cluster of now cannot hold: not simulated"]
    for name in ("queue-order", "more-nodes"):
        title = QUESTIONS[name](found).title
        assert title == "not judged: no started job that the cluster of now can hold in the log"


def test_gangs_on_more_nodes_than_needed_are_scattered(tmp_path: Path) -> None:
    jobs = [job("1", (0, 0, 30), "n1,n2", 4, 4), job("2", (0, 30, 60), "n1", 4, 4)]
    found = judged("scattered-gangs", tmp_path, jobs)
    assert (found.status, found.jobs, found.saving) == (FOUND, 2, None)
    assert found.rows[0][:5] == ("1", "ann", "4", "2", "1")


def test_scattered_gangs_cost_what_the_log_shows(tmp_path: Path) -> None:
    near = [job(f"n{at}", (at * 60, at * 60, at * 60 + 30), "n1", 4, 4) for at in range(3)]
    apart = [job(f"a{at}", (at * 60, at * 60, at * 60 + 45), "n1,n2", 4, 4) for at in range(3, 6)]
    found = judged("scattered-gangs", tmp_path, [*near, *apart])
    # 45 in place of 30 minutes: a third of 3 x 4 GPUs x 0.75 h.
    assert saved(found) == pytest.approx((0.0, 3.0))


def test_an_idle_partition_beside_a_queue_is_found(tmp_path: Path) -> None:
    nodes = (node("n1"), node("n2", partitions="b"))
    jobs = [
        job("1", (0, 0, 30), "n1", 4, 4),
        job("2", (0, 30, 60), "n1", 4, 4),
        job("3", (30, 30, 60), "n2", 1, 1, partition="b"),
    ]
    found = judged("walled-partitions", tmp_path, jobs, nodes)
    assert saved(found) == pytest.approx((0.0, 29 / 60))
    assert found.rows == [("a", "b", "1", "0.483")]


def test_one_partition_of_all_nodes_walls_nothing(tmp_path: Path) -> None:
    jobs = [job("1", (0, 0, 30), "n1", 4, 4), job("2", (0, 30, 60), "n1", 4, 4)]
    assert judged("walled-partitions", tmp_path, jobs).status == NOTHING


def test_time_limits_are_set_beside_run_times(tmp_path: Path) -> None:
    jobs = [job(str(at), (at, at, at + 10), "n1", 1, 1, limit=60) for at in range(5)]
    found = judged("time-limits", tmp_path, jobs)
    assert found.title == "Time limits are 6.0 times what jobs take (median)"
    assert judged("time-limits", tmp_path, [job("1", (0, 0, 50), "n1", 1, 1)]).status == NOTHING


def test_a_job_without_a_limit_has_none_to_halve(tmp_path: Path) -> None:
    jobs = [job("1", (0, 0, 10), "n1", 1, 1), job("2", (0, 0, 10), "n1", 1, 1, limit="UNLIMITED")]
    halved = trials_of(site(tmp_path, jobs, NODES))["limits halved"].trace.jobs
    assert halved["time_limit_seconds"].to_list() == [1800.0, None]


def queue_behind_a_long_job() -> list[str]:
    """One job of four GPUs for two hours, then short ones, on one node: the log starts them in this order."""
    long = job("1", (0, 0.1, 120), "n1", 4, 4, limit=180)
    more = job("2", (1, 120.1, 239), "n1", 4, 4, limit=180)
    short = [
        job(str(at), (2, 239 + 5 * (at - 3), 244 + 5 * (at - 3)), "n1", 4, 4, limit=10) for at in range(3, 13)
    ]
    return [long, more, *short]


def test_a_shorter_order_is_found_above_the_twins_error(tmp_path: Path) -> None:
    found = judged("queue-order", tmp_path, queue_behind_a_long_job(), (node("n1"),))
    assert found.status == FOUND
    assert "shortest time limit first" in found.title
    low, high = saved(found)
    # Ten jobs start two hours earlier, one an hour later.
    assert low < 10 * 119 / 60 - 50 / 60 < high
    assert high - low < 1.0
    assert found.jobs == 12


def test_another_node_shortens_the_queue(tmp_path: Path) -> None:
    found = judged("more-nodes", tmp_path, queue_behind_a_long_job(), (node("n1"),))
    assert found.status == FOUND
    assert found.title.startswith("1 more node of 4 GPU")


def test_kinds_of_node_of_one_name_say_which_they_are(tmp_path: Path) -> None:
    nodes = (node("n1"), node("n2", partitions="a,b"), node("n3", gpus=8))
    found = judged("more-nodes", tmp_path, [job("1", (0, 0, 60), "n1", 1, 1)], nodes)
    assert sorted(row[0] for row in found.rows) == ["4 GPUs like n1", "4 GPUs like n2", "8 GPUs"]


def test_a_kind_of_node_is_found_that_gains_enough(tmp_path: Path) -> None:
    # For each GPU one small node gains more, and yet less than the twin's error of 100 s.
    nodes = (node("n1", gpus="t4:1"), node("n2", gpus="h100:8"))
    alone = site(tmp_path, [job("1", (0, 0, 60), "n2", 8, 8, type="h100")], nodes)
    small, large = (name for name in trials_of(alone) if name.startswith("more "))
    waits = {"the site's scheduler": 1000.0, small: 940.0, large: 600.0}
    simulated = {name: Waits(mean, mean, 100.0 if mean == 1000.0 else 0.0) for name, mean in waits.items()}
    log = alone.trace.jobs.with_columns(start_seconds=1000.0, end_seconds=4600.0)
    beside = replace(alone, trace=replace(alone.trace, jobs=log), simulated=simulated)
    found = QUESTIONS["more-nodes"](beside)
    assert [row[4] for row in found.rows] == ["60.00", "50.00"]
    assert found.status == FOUND
    assert found.title.startswith(
        "1 more node of 8 h100 would shorten the mean wait from 16.7 min to 10.0 min"
    )
    assert saved(found) == pytest.approx((300 / 3600, 500 / 3600))


def test_trials_of_processes_give_the_same_findings(tmp_path: Path) -> None:
    """All that questions simulate is known beforehand, so that several can run at a time."""
    alone = site(tmp_path, queue_behind_a_long_job(), (node("n1"),))
    reports: list[str] = []
    trials = trials_of(alone)
    assert [name.split()[0] for name in trials] == ["the", "order", "order", "order", "more"]
    found = run_all(trials, 2, lambda name, progress: reports.append(f"{name} {progress.jobs_done}"))
    beside = replace(alone, simulated=found)
    for judge in QUESTIONS.values():
        assert judge(beside) == judge(alone)
    assert reports
    marked = replace(alone, simulated=dict.fromkeys(trials, Waits(1e6, 1e6)))
    assert "11.6 d" in QUESTIONS["more-nodes"](marked).rows[0][3], "what has run is not run again"


@pytest.mark.parametrize("name", ["stranded-gpus", "fragmentation", "scattered-gangs", "walled-partitions"])
def test_a_log_without_nodes_is_not_judged_by_nodes(tmp_path: Path, name: str) -> None:
    found = judged(name, tmp_path, [job("1", (0, 0, 60), "", 1, 1)])
    assert (found.status, found.saving) == (NOT_JUDGED, None)
    assert found.title == "not judged: no node names (NodeList) of this cluster in the log"


@pytest.mark.parametrize("name", ["idle-gpus", "oversized-requests"])
def test_a_log_without_use_is_not_judged_by_use(tmp_path: Path, name: str) -> None:
    found = judged(name, tmp_path, [job("1", (0, 0, 60), "n1", 1, 1)])
    assert found.status == NOT_JUDGED
    assert found.title.startswith("not judged: no use of ")


def test_nodes_of_another_cluster_are_not_judged(tmp_path: Path) -> None:
    found = judged("fragmentation", tmp_path, [job("1", (0, 0, 60), "x7", 1, 1)])
    assert found.status == NOT_JUDGED


def test_running_and_waiting_jobs_are_in_the_picture(tmp_path: Path) -> None:
    jobs = [
        job("1", (0, 0, 60), "n1", 1, 1),
        job("2", (0, 0, None), "n2", 4, 4),
        job("3", (0, None, None), "", 4, 4),
    ]
    whole = site(tmp_path, jobs, NODES)
    assert whole.trace.jobs["job_id"].to_list() == ["1"]
    assert whole.jobs["job_id"].to_list() == ["1", "2", "3"]
    assert whole.jobs["start_seconds"].to_list() == [0.0, 0.0, None]
    assert whole.occupancy is not None
    moments = list(whole.occupancy.moments())
    assert [moment.waiting.tolist() for moment in moments] == [[2]]
    assert moments[0].free[:, 0].tolist() == [3.0, 0.0]


def test_a_node_that_is_gone_had_its_part_of_a_job(tmp_path: Path) -> None:
    # Job 1 has two of its four GPUs on x9, which the cluster no longer has; job 2 waits.
    jobs = [job("1", (0, 0, 60), "n1,x9", 4, 4), job("2", (0, 30, 60), "n2", 4, 4)]
    whole = site(tmp_path, jobs, NODES)
    assert whole.occupancy is not None
    assert [moment.free[:, 0].tolist() for moment in whole.occupancy.moments()] == [[2.0, 4.0]]
    assert QUESTIONS["scattered-gangs"](whole).rows[0][:5] == ("1", "ann", "4", "2", "1")


@pytest.mark.parametrize(("most", "stretches"), [(4, [(60.0, 3060.0)]), (3, [(1800.0, 1800.0)])])
def test_only_a_longer_log_is_looked_at_now_and_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, stretches: list[tuple[float, float]]
) -> None:
    # It changes at 0, 60, 3120 and 3600 s: job 2 begins to count as waiting after a minute and starts in minute 52.
    jobs = [job("1", (0, 0, 60), "n1", 1, 1), job("2", (0, 52, 60), "n2", 1, 1)]
    whole = site(tmp_path, jobs, NODES)
    monkeypatch.setattr(occupancy, "MOST_MOMENTS", most)
    assert whole.occupancy is not None
    assert [(moment.time, moment.seconds) for moment in whole.occupancy.moments()] == stretches


def test_jobs_that_no_node_can_run_are_not_simulated(tmp_path: Path) -> None:
    jobs = [job("1", (0, 9, 60), "n1", 2, 2), job("2", (0, 30, 60), "n1", 2, 2, partition="old")]
    seen = site(tmp_path, jobs, NODES)
    assert seen.twin is not None
    assert (seen.twin.jobs, seen.twin.recorded.mean) == (1, 540.0)
    _, notes = read_site(tmp_path / "sacct.txt", str(tmp_path / "scontrol.txt"))
    assert any(note.startswith("1 job of a partition or a type of GPU that no node has") for _, note in notes)
    gone = site(tmp_path, jobs[1:], NODES)
    assert (gone.twin, QUESTIONS["more-nodes"](gone).status) == (None, NOT_JUDGED)
