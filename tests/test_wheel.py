"""The wheel in a virtual environment with NumPy alone: a job trains in it, commands name the extra that they lack."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from muster.extras import DISTRIBUTION, SERVICE, SIMULATOR, install_command
from muster.training.run_folder import EXIT_STOPPED

from .training import starting

pytestmark = pytest.mark.builds_wheel
ROOT = Path(__file__).parent.parent


def succeed(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """The folder of commands of a new virtual environment with the wheel and what it needs."""
    commands = wheel.parent / "venv" / "bin"
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
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"muster"}
    tracked = succeed("git", "ls-files", "muster", folder=ROOT).split()
    assert set(tracked) <= set(names)


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
