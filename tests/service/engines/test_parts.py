"""A start on two nodes: two launchers, each a process as an engine would start it on a machine of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Exit, Launch
from muster.service.engines.local.exit_status import classify
from muster.service.engines.parts import meeting_folder, start_file
from muster.training.run_folder import EXIT_STOPPED

PATIENCE_SECONDS = 60.0


class Gang:
    """A start on two nodes with 2 and 1 ranks, whose file and folders are on a shared disk."""

    def __init__(self, folder: Path, source: str, **options: Any) -> None:
        self.folder = folder
        self.launch = Launch(
            7,
            2,
            folder / "job" / "run",
            folder / "job" / "output",
            (sys.executable, "-I", "-S", "-c", source),
            folder,
            {},
            (NodeAllocation("node-0", (0, 1)), NodeAllocation("node-1", (0,))),
            (2, 1),
            None,
        )
        for each in (self.launch.run_dir, self.launch.output_dir, meeting_folder(self.launch)):
            each.mkdir(parents=True)
        content = start_file(self.launch, ["127.0.0.1", "127.0.0.1"], {"MINE": "1"}, **options)
        self.file = folder / "start.json"
        content["launch"]["gang_grace_seconds"] = 0.2
        self.file.write_text(json.dumps(content))

    @contextmanager
    def part(
        self, number: int, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        state = self.folder / f"node-{number}"
        command = [sys.executable, "-m", "muster.launcher", str(self.file), "--state", str(state)]
        command += ["--part-variable", "NODE_NUMBER"]
        process = subprocess.Popen(command, env={"NODE_NUMBER": str(number), **(environment or {})})
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run(self, environment: Mapping[str, str] | None = None) -> list[int]:
        """Both parts to their end; their exit statuses."""
        with self.part(0, environment) as first, self.part(1, environment) as second:
            return [first.wait(PATIENCE_SECONDS), second.wait(PATIENCE_SECONDS)]

    def output(self, rank: int) -> str:
        path = self.launch.output_dir / f"{rank}.log"
        return path.read_text() if path.exists() else ""

    def until_printed(self, text: str, rank: int) -> None:
        command = ["sh", "-c", 'until grep -q "$1" "$2" 2>/dev/null; do sleep 0.02; done', "sh"]
        path = self.launch.output_dir / f"{rank}.log"
        subprocess.run([*command, text, str(path)], timeout=PATIENCE_SECONDS, check=True)


SAYS = """
import os
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MUSTER_EPOCH MINE CUDA_VISIBLE_DEVICES".split()
print({name: os.environ.get(name) for name in names})
print(os.environ["MASTER_PORT"])
"""


def ended_parts(folder: Path) -> dict[int, dict[str, Any]]:
    """How the parts of a start ended that have, by their number."""
    ends = {}
    for path in folder.glob("ended.*"):
        number = path.name.removeprefix("ended.")
        if number.isdecimal():
            ends[int(number)] = json.loads(path.read_text())
    return ends


def test_ranks_count_on_over_all_nodes(tmp_path: Path) -> None:
    gang = Gang(tmp_path, SAYS, inherited=("CUDA_VISIBLE_DEVICES",))
    assert gang.run({"CUDA_VISIBLE_DEVICES": "5", "SECRET": "1"}) == [0, 0]
    ports = set()
    for rank, (local, local_size) in enumerate([(0, 2), (1, 2), (0, 1)]):
        said, port = gang.output(rank).splitlines()
        assert eval(said) == {
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": "3",
            "LOCAL_WORLD_SIZE": str(local_size),
            "MASTER_ADDR": "127.0.0.1",
            "MUSTER_EPOCH": "2",
            "MINE": "1",
            "CUDA_VISIBLE_DEVICES": "5",
        }
        ports.add(port)
    assert len(ports) == 1
    ends = ended_parts(meeting_folder(gang.launch))
    assert [classify(ends[part], 0, 1.0)[0] for part in (0, 1)] == [Exit.COMPLETED] * 2


DIES = """
import os, time
if os.environ["RANK"] == "{rank}": os._exit(9)
time.sleep(600)
"""


@pytest.mark.parametrize(("rank", "part"), [(1, 0), (2, 1)])
def test_a_rank_that_dies_on_a_node_ends_all_nodes(tmp_path: Path, rank: int, part: int) -> None:
    gang = Gang(tmp_path, DIES.format(rank=rank))
    statuses = gang.run()
    assert statuses[part] == 9
    assert statuses[1 - part] == 0, "the status of the start is that of the part with the death"
    ends = ended_parts(meeting_folder(gang.launch))
    assert classify(ends[part], 0, 1.0)[:2] == (Exit.FAILED, 9)
    assert classify(ends[1 - part], 0, 1.0)[0] is Exit.STOPPED


SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(75)))
print("up", flush=True)
while True: time.sleep(60)
"""


def test_each_rank_gets_a_signal_to_its_launcher_once(tmp_path: Path) -> None:
    gang = Gang(tmp_path, SAVES)
    with gang.part(0) as first, gang.part(1) as second:
        for rank in range(3):
            gang.until_printed("up", rank)
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        assert [first.wait(PATIENCE_SECONDS), second.wait(PATIENCE_SECONDS)] == [EXIT_STOPPED] * 2
    assert [gang.output(rank) for rank in range(3)] == ["up\nsaved\n"] * 3


def test_a_part_that_waits_for_rank_0_can_be_stopped(tmp_path: Path) -> None:
    gang = Gang(tmp_path, SAVES)
    with gang.part(1) as second:
        log = tmp_path / "node-1" / "7.2" / "status"
        command = [
            "sh",
            "-c",
            'until grep -q supervisor "$1" 2>/dev/null; do sleep 0.02; done',
            "sh",
            str(log),
        ]
        subprocess.run(command, timeout=PATIENCE_SECONDS, check=True)
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE_SECONDS) == EXIT_STOPPED
    assert gang.output(2) == ""


@pytest.mark.parametrize("spoiled", ["no file", "no part", "begun before"])
def test_a_part_that_cannot_start_says_why(tmp_path: Path, spoiled: str) -> None:
    gang = Gang(tmp_path, "")
    number = 0
    if spoiled == "no file":
        gang.file.unlink()
    elif spoiled == "no part":
        number = 2
    else:
        assert gang.run() == [0, 0]
    with gang.part(number) as process:
        assert process.wait(PATIENCE_SECONDS) == 2
