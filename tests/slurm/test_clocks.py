"""The daemon's machine and that of slurmctld have clocks that differ. Slurm itself allows five minutes."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.service.another_clock import clock_ahead, set_clock
from tests.service.cli.daemons import open_folder
from tests.slurm.cluster import SlurmCluster, munged, wait_for
from tests.slurm.test_serving import Site

pytestmark = pytest.mark.needs_slurm


@contextmanager
def site_ahead(slurm: SlurmCluster, seconds: int) -> Iterator[Site]:
    """A site whose daemon has another clock than Slurm."""
    with open_folder(0o711) as folder:
        site = Site(slurm, folder / "home")
        clock = clock_ahead(folder, seconds)
        site.person = replace(site.person, environment={**site.person.environment, **clock})
        yield site


@pytest.mark.parametrize(("ahead", "words"), [(20, "behind"), (-20, "ahead of")])
def test_jobs_run_and_are_charged_with_another_clock(slurm: SlurmCluster, ahead: int, words: str) -> None:
    """A job that starts again waits until both clocks agree that it may, and no longer."""
    with site_ahead(slurm, ahead) as site, site.serves():
        named = re.compile(rf"The clock of slurmctld is (19|20)[.0-9]* s {words} that of the daemon")
        shown: list[str] = []

        def is_named() -> bool:
            shown[:] = site.muster("nodes").split()
            return named.search(" ".join(shown)) is not None

        wait_for(is_named, lambda: " ".join(shown))
        job = site.submit("--gpus", "2", "--cpus", "4")
        site.wait(job, phase="running")
        began = time.monotonic()
        wait_for(
            lambda: site.status(job)["steps_done"] > 2 and time.monotonic() - began > 6.0,
            lambda: f"no step: {site.status(job)}",
        )
        seconds = time.monotonic() - began
        site.muster("hold", job)
        # Slurm's ends are whole seconds, and one reading of its clock bounds the difference to a second.
        assert site.wait(job, state="held")["run_seconds"] > seconds - 3.0
        site.muster("release", job)
        site.wait(job, state="completed")


@pytest.mark.parametrize("by", [30, -30], ids=["forwards", "backwards"])
def test_a_run_is_as_long_where_the_clock_is_set_meanwhile(slurm: SlurmCluster, by: int) -> None:
    """That of the daemon's machine alone, just before the end."""
    with site_ahead(slurm, 0) as site, site.serves():
        before = time.monotonic()
        job = site.submit("--gpus", "2")
        site.wait(job, phase="running")
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + 6.0, lambda: "time stands still")
        set_clock(site.home.parent, by)
        seconds = time.monotonic() - began
        site.muster("cancel", job)
        ran = site.wait(job, state="cancelled")["run_seconds"]
        assert seconds - 3.0 < ran < time.monotonic() - before


def test_a_clock_that_slurm_does_not_accept_is_named(slurm: SlurmCluster) -> None:
    """It says nothing of clocks itself to those who ask. Its limit is five minutes."""
    with open_folder(0o711) as folder, site_ahead(slurm, 400) as site:
        for name in ("munge.key", "gres.conf", "cgroup.conf"):
            shutil.copy(slurm.folder / name, folder / name)
        conf = folder / "slurm.conf"
        conf.write_text(slurm.conf.read_text().replace(f"socket={slurm.folder}/", f"socket={folder}/"))
        environment = {**site.person.environment, "SLURM_CONF": str(conf)}
        with subprocess.Popen(munged(folder), env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                wait_for((folder / "munge.socket").exists, lambda: "munged does not start")
                site.person = replace(site.person, environment=environment)
                done = site.person.types(site.home, "serve", "--engine", "slurm", "--partition", "train")
            finally:
                process.kill()
        assert (done.returncode, done.stdout) == (1, "")
        assert "compare this machine's clock and authentication key with slurmctld's" in " ".join(
            done.stderr.split()
        )
