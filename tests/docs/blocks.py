"""Code blocks of the documentation, and how they are run.

A block of the language `console` has commands after `$ ` and the output that each prints; one of `sh` has commands
only. Both run, in the order of the page, in a folder of the page's own. In expected output a line `...` stands for any
lines and `...` within a line for any text. Marks in braces after the language say more:

    skip="hours"      not run; the reasons are those of SKIPPED
    long              run by make test-rest
    background        a server: runs until the page ends; what follows waits for its expected output
    exit=2            the exit status that the last command has to end with; 0 without this mark
    file="NAME"       any language: the block is written to a file of this name
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")], key=str)
RUN = ("console", "sh")
"""Languages of blocks that are run."""
SKIPPED = {
    "hours": "takes more than some minutes",
    "install": "changes the installation, or needs other packages",
    "reference": "reads published data that the repository does not have",
    "root": "needs an account of the system",
    "server": "needs a server beside this machine's daemon",
    "training": "runs a job that needs PyTorch",
}
"""Why a block may be left out."""
WAIT_SECONDS = 600.0
"""The most that a command, or the start of a server, may take."""

_FENCE = re.compile(r"^ *```(\w*)(?: \{([^}\n]*)\})?[ \t]*$")
_MARK = re.compile(r'(\w+)(?:=(?:"([^"]*)"|(\w+)))?')
_STEP = re.compile(r"(Reading|Converting|Making|Simulating|Drawing) .*")
"""What a command names on stderr only if it takes longer than a second; it is left out of what is compared."""
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    marks: Mapping[str, str]
    text: str

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether it has commands that are run."""
        return self.language in RUN and "skip" not in self.marks

    def commands(self) -> list[tuple[str, str | None]]:
        """Each command with its expected output; None where only its exit status counts."""
        if self.language == "sh":
            return [(self.text, None)]
        parts = _COMMAND.split(self.text)
        return list(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        number += 1
        if not opening:
            continue
        start = number
        while lines[number].strip() != "```":
            number += 1
        marks = {name: quoted or bare for name, quoted, bare in _MARK.findall(opening[2] or "")}
        indent = len(opening[0]) - len(opening[0].lstrip())
        text = "\n".join(line[indent:] for line in lines[start:number])
        found.append(Block(page, start, opening[1], marks, text))
        number += 1
    return found


def pattern_of(expected: str) -> re.Pattern[str]:
    """A pattern of the output: `...` stands for any text of a line, and alone on a line for any lines."""
    parts = []
    for line in expected.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n")
    return re.compile("".join(parts))


def matches(expected: str, output: str) -> bool:
    """Whether an output is the expected one."""
    said = [line for line in output.strip("\n").splitlines() if not _STEP.fullmatch(line)]
    lines = "".join(f"{line}\n" for line in said) if output.strip() else ""
    return pattern_of(expected).fullmatch(lines) is not None


def run_page(page: Path, folder: Path, *, long: bool) -> list[str]:
    """Runs the blocks of a page in a folder; the failures. Without `long` those with this mark are left out."""
    failures: list[str] = []
    (folder / "examples").symlink_to(ROOT / "examples")
    with ExitStack() as servers:
        for block in blocks_of(page):
            if name := block.marks.get("file"):
                (folder / name).write_text(block.text + "\n", encoding="utf-8")
            if not block.runs or ("long" in block.marks and not long):
                continue
            if "background" in block.marks:
                servers.enter_context(_server(block, folder))
            else:
                failures += _run(block, folder)
    return failures


def _run(block: Block, folder: Path) -> Iterator[str]:
    """Runs the commands of a block; what is wrong with each."""
    commands = block.commands()
    for number, (command, expected) in enumerate(commands, 1):
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        status = int(block.marks.get("exit", 0)) if number == len(commands) else 0
        if done.returncode != status:
            yield f"{block.where}: $ {command}\nfound exit status {done.returncode}; expected {status}\n{done.stdout}"
        elif expected is not None and not matches(expected, done.stdout):
            yield f"{block.where}: $ {command}\nfound:\n{done.stdout}\nexpected:\n{expected}"


@contextmanager
def _server(block: Block, folder: Path) -> Iterator[None]:
    """A server that runs within the context; it begins when the expected output is there."""
    ((command, expected),) = block.commands()
    log = folder / f"server-{block.line}.log"
    errors = log.with_suffix(".err")
    with log.open("w") as output, errors.open("w") as notes:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=notes,
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not matches(expected or "...", log.read_text()):
            if server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(
                    f"{block.where}: $ {command}\nfound:\n{log.read_text()}{errors.read_text()}\nexpected:\n{expected}"
                )
            time.sleep(0.1)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(WAIT_SECONDS)


def _environment(folder: Path) -> dict[str, str]:
    """What a reader's shell would have, with a home of the page's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    binaries = str(Path(sys.executable).parent)
    return kept | {
        "PATH": f"{binaries}:{kept['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MUSTER_HOME": str(folder / "home"),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }
