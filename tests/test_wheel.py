"""The wheel in a virtual environment with NumPy alone: a job trains in it, commands name the extra that they lack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from muster.extras import DISTRIBUTION, SERVICE, SIMULATOR, install_command
from muster.training.run_folder import EXIT_STOPPED

from .training import starting

pytestmark = pytest.mark.builds_wheel
ROOT = Path(__file__).parent.parent
DATA_FILES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
SHARED = {f"{folder}/{Path(name).name}" for folder, names in DATA_FILES.items() for name in names}


def succeed(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that MUSTER_WHEEL names, as `make wheel` has built it, or a new one."""
    if built := os.environ.get("MUSTER_WHEEL"):
        return ROOT / built
    folder = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (new,) = folder.glob("*.whl")
    return new


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a new virtual environment with the wheel and what it needs."""
    commands = tmp_path_factory.mktemp("environment") / "venv" / "bin"
    succeed(sys.executable, "-m", "venv", commands.parent)
    pip = (commands / "python", "-m", "pip", "--disable-pip-version-check")
    succeed(*pip, "install", "--quiet", "--constraint", ROOT / "requirements.lock", wheel)
    installed = succeed(*pip, "list", "--format", "freeze", "--exclude", "pip", "--exclude", "setuptools")
    assert sorted(line.partition("==")[0] for line in installed.split()) == [DISTRIBUTION, "numpy"]
    return commands


@pytest.fixture
def in_environment(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are started with the Python of the new environment."""
    monkeypatch.setattr(sys, "executable", str(environment / "python"))


def test_the_wheel_has_the_package_and_its_data_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    (entry_points,) = (archive.read(name).decode() for name in names if name.endswith("/entry_points.txt"))
    assert "muster.engines" in entry_points
    assert "experiments" not in entry_points
    shared = {name.partition(".data/data/")[2] for name in names} - {""}
    assert shared == SHARED
    folders = {name.split("/")[0] for name in names if ".data/data/" not in name}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"muster"}
    tracked = succeed("git", "ls-files", "muster", folder=ROOT).split()
    assert set(tracked) <= set(names)
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert compiled == {name.removesuffix(".pyx") for name in tracked if name.endswith(".pyx")}


def test_the_image_is_built_from_files_that_suffice(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build stage gets them alone; without a Docker daemon this is what can be tried of it.

    The compiler does not optimise: which files it needs is the same, and it takes a fraction of the time.
    """
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    names = [name for name in copied if not name.startswith(("--from", "/"))]
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    assert sorted(names) == sorted(line.removeprefix("!") for line in ignored if line.startswith("!"))
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path)
    if compiler := shutil.which("c++"):
        unoptimised = tmp_path / "unoptimised"
        unoptimised.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
        unoptimised.chmod(0o755)
        monkeypatch.setenv("CXX", str(unoptimised))
    succeed(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, tmp_path)
    built = zipfile.ZipFile(tmp_path / wheel.name).namelist()
    assert sorted(built) == sorted(zipfile.ZipFile(wheel).namelist())


def test_a_job_trains_with_numpy_alone(in_environment: None, tmp_path: Path) -> None:
    """Stopped in the middle and started again, it ends as one that was left alone."""
    expected = starting.run("numpy_job.py", env=starting.alone())
    stopped = starting.start("numpy_job.py", "--gated", env=starting.begin(tmp_path, 1))
    for step in range(9):
        assert starting.next_step(stopped) == step
        if step == 8:
            stopped.terminate()
        starting.let_step(stopped)
    starting.outcome(stopped, status=EXIT_STOPPED)
    assert starting.run("numpy_job.py", env=starting.begin(tmp_path, 2)) == expected


@pytest.mark.parametrize("arguments", [("simulate", "trace.csv"), ("serve",), ("--help",)])
def test_the_command_names_what_it_lacks(environment: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([environment / "muster", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert install_command(SIMULATOR) in line
    assert f"[{SERVICE}]" in line
