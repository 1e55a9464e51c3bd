"""What a measurement was made on."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "timm", "transformers", "tokenizers", "pillow", "numpy")
_TYPE = re.compile(r"NVIDIA (\w+)")


@functools.cache  # nvidia-smi takes a second, beside a job that is measured
def describe_machine() -> dict[str, Any]:
    """GPU and driver, CPU, cores, memory, versions and date, for the JSON file of a measurement."""
    gpu, driver = _gpu()
    named = _TYPE.match(gpu)
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "gpu": gpu,
        "gpu_type": named[1].lower() if named else "",
        "driver": driver,
        "cpu": cpu[1] if cpu else "",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9,
        "versions": versions,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _gpu() -> tuple[str, str]:
    """Name and driver's version of the first one; empty without one."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split(
            "\n"
        )
        name, _, driver = found[0].partition(", ")
        return name, driver
    return "", ""
