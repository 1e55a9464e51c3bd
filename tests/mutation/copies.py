"""A temporary copy of the repository, in which one mutation at a time is tried."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.mutation import bounded
from tests.mutation.mutations import Mutation
from tests.mutation.waiting import OVERTIME, wait_while_busy

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "wheel", "mutation-*", "dist", "demo", "out"
)
_MOST_RUNS = 4.0
"""Of the limit of a run: processor time of all its processes together, some of which the run itself does not count."""
_PACKAGES = ("torch", "postgres", "prometheus", "ray", "slurm", "browser", "mcp")
_REST = (*(f"needs_{name}" for name in _PACKAGES), "builds_wheel", "long")
_DESELECTED = f"not ({' or '.join(_REST)})"
"""What `make test` leaves out is left out here."""


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time for one test and for all tests of a mutation, and idle seconds of all of them."""

    test: float
    run: float
    idle: float


@dataclass(frozen=True)
class Tried:
    """What the tests said of a mutation."""

    result: str
    """killed, timeout, survived, stalled, no test or not compiled."""
    by: str = ""
    """The test that failed, or why no test did."""


class Copy:
    """A copy with a temporary folder of its own and a process space of its own."""

    def __init__(self, root: Path, folder: Path, limits: Limits) -> None:
        self._root, self._limits = root, limits
        self._tree, self._temporary = folder / "tree", folder / "tmp"
        shutil.copytree(root, self._tree, ignore=_LEFT_OUT, symlinks=True)
        self._temporary.mkdir()

    def try_out(self, mutation: Mutation, tests: list[str]) -> Tried:
        """Run tests with a mutation applied, nearest first, until one fails."""
        if not tests:
            return Tried("no test")
        file = self._tree / mutation.path
        source = file.read_text(encoding="utf-8")
        before = {one: (one.read_bytes(), one.stat()) for one in (file, *self._built_from(mutation.path))}
        file.write_text(mutation.applied(source), encoding="utf-8")
        _forget_bytecode(file)
        try:
            if file.suffix == ".pyx" and not self._compiles():
                return Tried("not compiled")
            return self._run(tests)
        finally:
            for one, (data, times) in before.items():
                one.unlink(missing_ok=True)
                one.write_bytes(data)
                os.utime(one, ns=(times.st_atime_ns, times.st_mtime_ns))
            _forget_bytecode(file)
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary.mkdir(exist_ok=True)

    def _built_from(self, path: str) -> list[Path]:
        """Returns what was built from a compiled source file: the C++, the object, and the library, twice."""
        if not path.endswith(".pyx"):
            return []
        folder, name = Path(path).parent, Path(path).stem
        found = [*(self._tree / folder).glob(f"{name}.*.so")]
        for file in (self._tree / "build").rglob(f"{name}.*"):
            if file.parent.as_posix().endswith(f"/{folder.as_posix()}"):
                found.append(file)
        return found

    def _compiles(self) -> bool:
        """Build what has changed; whether that is possible."""
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        return subprocess.run(build, cwd=self._tree, capture_output=True, check=False).returncode == 0

    def failing_without_mutation(self, tests: list[str]) -> set[str]:
        """Returns which of these tests fail, or take too long, in the code as it is; together, or else each alone."""
        failing: set[str] = set()
        if self._output(tests, float("inf"))[0] == 0:
            return failing
        for test in tests:
            status, output = self._output([test], float("inf"))
            if status == OVERTIME or _failed(output):
                failing.add(test)
        return failing

    def _run(self, tests: list[str]) -> Tried:
        status, output = self._output(tests, self._limits.run)
        failed = _failed(output)
        if failed:
            return Tried("killed", failed[0])
        if bounded.STOPPED_EARLY in output:
            return Tried("survived", bounded.STOPPED_EARLY)
        if status == 0:
            return Tried("survived")
        if status == OVERTIME:
            return Tried("timeout", self._running())
        if status is None:
            return Tried("stalled")
        if status == 5:  # pytest: no test was collected
            return Tried("no test")
        return Tried("killed", f"exit status {status}")

    def _running(self) -> str:
        """The last test that began, if any did."""
        file = self._temporary / bounded.RUNNING
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def _output(self, tests: list[str], run_seconds: float) -> tuple[int | None, str]:
        """Exit status, None after too long a wait for nothing, and output of pytest in its own process space."""
        pytest = [
            sys.executable,
            "-m",
            "tests.mutation.in_turn",
            "-x",
            "-q",
            "--no-header",
            "--tb=no",
            "-rfE",
        ]
        pytest += [
            "--color=no",
            "--assert=plain",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "-m",
            _DESELECTED,
            "--",
            *tests,
        ]
        environment = os.environ | {
            "PYTHONPATH": str(self._tree),
            "TMPDIR": str(self._temporary),
            "MUSTER_REFERENCE": str((self._root / os.environ.get("MUSTER_REFERENCE", "../shared")).resolve()),
            bounded.RUNNING: str(self._temporary / bounded.RUNNING),
            bounded.TEST_SECONDS: str(self._limits.test),
            bounded.RUN_SECONDS: str(run_seconds),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # The copy keeps its bytecode between mutations.
        report = self._temporary / "report"
        with report.open("wb") as out:
            process = subprocess.Popen(
                [*isolation(), "sh", "-c", '"$@"; exit $?', "sh", *pytest],
                cwd=self._tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            try:
                status = wait_while_busy(process, self._limits.idle, _MOST_RUNS * run_seconds)
            finally:
                process.kill()  # and with it, as --kill-child says, all that it has started
                process.wait()
        return status, report.read_text(encoding="utf-8", errors="replace")


def isolation() -> list[str]:
    """The command before a command that gives it a process space of its own, so that nothing else can be killed."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return command if os.geteuid() == 0 else [*command, "--user", "--map-current-user"]


def can_isolate() -> bool:
    """Whether this machine allows process spaces."""
    try:
        done = subprocess.run([*isolation(), "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def _failed(output: str) -> list[str]:
    """The tests, or files, that pytest lists as failed; the parameters of a test may contain spaces."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", output, re.MULTILINE)


def _forget_bytecode(file: Path) -> None:
    """Python takes bytecode for valid if the source has the same size and second of change."""
    for bytecode in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
        bytecode.unlink()
