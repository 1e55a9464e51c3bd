"""Finds excluded words in code and docs: `python -m tests.language`; `--write` records what is left.

Text written before the rule still has such words. `remaining.json` says how many each file has; a file may have fewer,
and never more, and a file that is not listed has none.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
REMAINING = Path(__file__).with_name("remaining.json")
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
    command = ["git", "ls-files", "*.py", "*.md", "*.toml", "*.j2", "Makefile"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if not name.startswith(SKIPPED) and (ROOT / name).is_file()]


def main() -> int:
    """1 if a file has more of these words than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.language")
    parser.add_argument("--write", action="store_true", help="record the words that are left")
    write = parser.parse_args().write
    found = {name: words for name in checked_files() if (words := found_in(ROOT / name))}
    counts = {name: len(words) for name, words in found.items()}
    if write:
        REMAINING.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    allowed = json.loads(REMAINING.read_text())
    failed = [name for name, count in counts.items() if count > allowed.get(name, 0)]
    for name in failed:
        for number, word in found[name]:
            print(
                f"{name}:{number}: found {word!r}; allowed: the words of docs/reference/glossary.md and plain English"
            )
    fewer = [name for name, count in allowed.items() if counts.get(name, 0) < count]
    if fewer:
        print(f"{len(fewer)} files have fewer such words than recorded: python -m tests.language --write")
    print(f"{sum(counts.values())} excluded words are left in {len(counts)} of {len(checked_files())} files")
    return 1 if failed or fewer else 0


if __name__ == "__main__":
    sys.exit(main())
