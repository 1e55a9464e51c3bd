"""Finds excluded words in code and docs, and names that are to be others: `python -m tests.language`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.language.names import faults_of_names

ROOT = Path(__file__).parents[2]
SKIPPED = ("tests/language/",)
"""The check names the words itself."""

EXCLUDED = re.compile(
    r"\b(told|tells?|heeds?|heeded|mend(?:s|ed)?|lest|anew|foretells?|foretold|whoever|had better|nobody|"
    r"in words|wish(?:es|ed)?|seats?|seated|sits?|furnish\w*|deals?|dealt|dealing|moody|pretends?|pretended|"
    r"shepherds?|conductors?|troubles?)\b",
    re.IGNORECASE,
)
_WORD_OF_NAME = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with names split into their words."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield number, _WORD_OF_NAME.sub(" ", line)


def found_in(path: Path) -> list[tuple[int, str]]:
    """Line and word of everything in a file that is not to be used."""
    return [(number, word.group()) for number, line in lines_of(path) for word in EXCLUDED.finditer(line)]


def checked_files() -> list[str]:
    """The tracked files with text of ours."""
    command = ["git", "ls-files", "*.py", "*.pyx", "*.pxd", "*.pyi", "*.md", "*.toml", "*.j2", "Makefile"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if not name.startswith(SKIPPED) and (ROOT / name).is_file()]


def faults_of_words(files: list[str]) -> list[str]:
    """One line for each excluded word, with the file and line that have it."""
    return [
        f"{name}:{number}: found {word!r}; allowed: the words of docs/reference/glossary.md and plain English"
        for name in files
        for number, word in found_in(ROOT / name)
    ]


def main() -> int:
    """1 if a file has such a word or name."""
    files = checked_files()
    faults = [*faults_of_words(files), *faults_of_names(ROOT)]
    print(*faults, f"{len(faults)} excluded words and names in {len(files)} files", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
