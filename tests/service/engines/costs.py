"""What the local engine costs, in CPU time: `python -m tests.service.engines.costs`. Best on a quiet machine."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from muster.service.engines.local.launch_context import RUN_SUPERVISOR
from tests.service.engines.bench import Bench

STARTS, LOOKS = 40, 200


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        begin = time.process_time()
        for job in range(STARTS):
            bench.launch(job, 1, ["sleep", "600"], cpus=0.05, memory_gb=0.1)
        print(f"launch: {(time.process_time() - begin) / STARTS * 1e3:.2f} ms")
        pids = [bench.supervisor(job, 1) for job in range(STARTS)]
        begin = time.process_time()
        for _ in range(LOOKS):
            bench.engine.observe()
        print(f"observe with {STARTS} starts: {(time.process_time() - begin) / LOOKS * 1e3:.2f} ms")
        own = statistics.median(_own_kilobytes(pid) for pid in pids)
        print(f"memory of a supervisor's own: {own / 1e3:.1f} MB")
        bench.clear()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(20):
        command = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            RUN_SUPERVISOR,
            str(Path(__file__).parents[3]),
            "/nowhere",
        ]
        subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"a supervisor's start: {spent / 20 * 1e3:.1f} ms")


def _own_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


if __name__ == "__main__":
    main()
