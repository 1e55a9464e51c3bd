"""Gives processes another time of day than this machine has, as they would read it on one whose clock is wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = (int)syscall(SYS_clock_gettime, clock, found);
    const char *ahead = getenv("CLOCK_AHEAD");
    if (!failed && clock == CLOCK_REALTIME && ahead) found->tv_sec += atol(ahead);
    return failed;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_ahead(folder: Path, seconds: int) -> Mapping[str, str]:
    """Variables of a process whose time of day is so much ahead; skips where there is no C compiler.

    What waits until a time of day waits longer then; waits of Python and Slurm's commands do not.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    library = folder / "another_clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-o", str(library), "-"]
    subprocess.run(command, input=_SOURCE, text=True, check=True)
    library.chmod(0o755)
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(seconds)}
