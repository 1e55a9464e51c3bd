"""Gives processes another time of day than this machine has, as they would read it on one whose clock is wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

_AHEAD = "clock_ahead"
"""File with the seconds."""
_SOURCE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    const char *name = getenv("CLOCK_AHEAD");
    FILE *file = name ? fopen(name, "re") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = (int)syscall(SYS_clock_gettime, clock, found);
    if (!failed && clock == CLOCK_REALTIME) found->tv_sec += ahead();
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
    set_clock(folder, seconds)
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(folder / _AHEAD)}


def set_clock(folder: Path, seconds: int) -> None:
    """Set the time of day of the processes with these variables, while they run."""
    aside = folder / f"{_AHEAD}.new"
    aside.write_text(f"{seconds}\n")
    aside.chmod(0o644)
    aside.replace(folder / _AHEAD)
