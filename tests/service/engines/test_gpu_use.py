"""How busy GPUs are, from a library with the functions of NVML that answers as a file says; no GPU is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.gpu_use import GpuMeter
from tests.service.cli.daemons import Person
from tests.service.engines.test_machine import H100S, nvidia_smi
from tests.slurm.cluster import wait_for

# The signatures and numbers of errors are those of nvml.h: 3 is "not supported", 6 "not found".
LIBRARY = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilization;
int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) { return "an error"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = strdup(uuid);
    return strstr(uuid, "lost") ? 6 : 0;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = 80000000000ULL; memory->used = 61000000000ULL; memory->free = 19000000000ULL;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, Utilization *use) {
    if (strncmp(device, "MIG", 3) == 0) return 3;
    FILE *file = fopen(getenv("BUSY_FILE"), "r");
    if (!file) for (;;) pause();
    if (fscanf(file, "%u", &use->gpu) != 1) use->gpu = 0;
    fclose(file);
    return 0;
}
"""
PRINTS = """
import sys
from muster.gpu_use import GpuMeter
meter = GpuMeter(sys.argv[1:])
seen = ()
for line in sys.stdin:
    while (now := meter.latest()) == seen and line != "look\\n":
        pass
    seen = now
    print([use and (use.busy, use.memory_gb) for use in now], flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the library."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(LIBRARY)
    compiler = ["cc"] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    made = folder / "libnvidia-ml.so.1"
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(made), str(folder / "nvml.c")], check=True)
    return folder


def meter(library: Path, busy: Path, *uuids: str) -> subprocess.Popen[str]:
    """A process that prints the newest figures once they differ from those before, at once for the line `look`."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "BUSY_FILE": str(busy)}
    return subprocess.Popen(
        [sys.executable, "-c", PRINTS, *uuids],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_each_gpu_says_what_it_knows(library: Path, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.write_text("97")
    with meter(library, busy, "GPU-1", "", "GPU-lost", "MIG-1") as process:
        assert said(process, "changed") == "[(0.97, 61.0), None, None, (None, 61.0)]"
        busy.write_text("3")
        assert said(process, "changed") == "[(0.03, 61.0), None, None, (None, 61.0)]"
        process.communicate()
    assert process.returncode == 0


def test_a_driver_that_hangs_holds_nothing_up(library: Path, tmp_path: Path) -> None:
    with meter(library, tmp_path / "no such file", "GPU-1") as process:
        assert said(process, "look") == "[]"
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_without_a_driver_nothing_is_known() -> None:
    assert GpuMeter(["GPU-1"]).latest() == ()
    assert GpuMeter(["", ""]).latest() == ()


def test_a_daemon_shows_how_busy_its_gpus_are(library: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    nvidia_smi(tools, H100S)
    (tmp_path / "busy").write_text("42")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(library),
        "BUSY_FILE": str(tmp_path / "busy"),
    }
    person = Person(environment=environment)
    with person.serves(tmp_path / "home", "--gpus", "4"):

        def used() -> list[object]:
            (node,) = json.loads(person.types(tmp_path / "home", "nodes", "--json").stdout)["nodes"]
            return list(node["gpu_use"])

        wait_for(lambda: bool(used()), lambda: "the driver was not asked")
        assert used() == [{"busy": 0.42, "memory_gb": 61.0}] * 3 + [None]
        assert " 42 % " in person.types(tmp_path / "home", "nodes").stdout
