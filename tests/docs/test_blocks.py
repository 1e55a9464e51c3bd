"""Every command block of the README and the documentation runs and prints what the page says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from .blocks import PAGES, ROOT, RUN, SKIPPED, Block, blocks_of, matches, run_page

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
QUICK = [page for page in PAGES if any(block.runs and "long" not in block.marks for block in blocks_of(page))]
LONG = [page for page in PAGES if any(block.runs and "long" in block.marks for block in blocks_of(page))]
LANGUAGES = {*RUN, "toml", "python", "json", "text", "csv"}
MOST_SKIPPED = 41


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", QUICK, ids=name_of)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    failures = run_page(page, tmp_path, long=False)
    assert not failures, "\n\n".join(failures)


@pytest.mark.long
@pytest.mark.parametrize("page", LONG, ids=name_of)
def test_the_long_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    failures = run_page(page, tmp_path, long=True)
    assert not failures, "\n\n".join(failures)


def test_every_block_states_its_language() -> None:
    assert [block.where for block in BLOCKS if block.language not in LANGUAGES] == []


def test_no_commands_hide_in_other_blocks() -> None:
    command = re.compile(r"^(?: {4}|\$ )?(?:\$ )?(muster|make|pip|python -m|\.venv/bin/\w+) \w", re.MULTILINE)
    hidden = [block.where for block in BLOCKS if block.language not in RUN and command.search(block.text)]
    for page in PAGES:
        outside = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        hidden += [
            f"{name_of(page)}: {line}"
            for line in re.findall(r"^ {4}.*$", outside, re.MULTILINE)
            if command.match(line)
        ]
    assert hidden == []


def test_few_blocks_are_skipped_each_for_a_known_reason() -> None:
    commands = [block for block in BLOCKS if block.language in RUN]
    reasons = Counter(block.marks["skip"] for block in commands if "skip" in block.marks)
    listed = "\n".join(f"{block.where}: {block.marks['skip']}" for block in commands if "skip" in block.marks)
    print(f"{reasons.total()} of {len(commands)} command blocks are not run\n{listed}")
    assert reasons.keys() <= SKIPPED.keys(), listed
    assert reasons.total() <= MOST_SKIPPED, listed


@pytest.mark.parametrize(
    ("expected", "output", "agrees"),
    [
        ("a\n...\nz", "a\nb\nc\nz\n", True),
        ("a\n...", "a\n", True),
        ("took ... s", "took 0.4 s\n", True),
        ("took ... s", "took 0.4 s\nmore\n", False),
        ("a.c", "abc\n", False),
        ("a\nb", "a\n", False),
        ("", "", True),
        ("", "something\n", False),
        ("a", "Drawing the page and its charts\na\n", True),
        ("", "Making the trace\n", True),
    ],
)
def test_expected_output_may_leave_out_what_varies(expected: str, output: str, agrees: bool) -> None:
    assert matches(expected, output) is agrees


def test_marks_and_commands_of_a_block_are_read(tmp_path: Path) -> None:
    page = ROOT / "docs" / "example.md"
    text = '# Page\n\n```console {exit=2 skip="root"}\n$ first \\\n  more\nout\n$ second\n```\n'
    (tmp_path / "page.md").write_text(text)
    (block,) = blocks_of(tmp_path / "page.md")
    assert Block(page, block.line, block.language, block.marks, block.text).where == "docs/example.md:3"
    assert block.marks == {"exit": "2", "skip": "root"}
    assert block.commands() == [("first \\\n  more", "out"), ("second", "")]


def test_a_wrong_output_and_a_wrong_status_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n\n```sh\nexit 3\n```\n\n```sh {exit=3}\nexit 3\n```\n")
    (tmp_path / "run").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.docs.blocks.ROOT", tmp_path)
        (tmp_path / "examples").mkdir()
        failures = run_page(page, tmp_path / "run", long=False)
    assert [failure.splitlines()[0] for failure in failures] == [
        "page.md:1: $ echo one",
        "page.md:6: $ exit 3",
    ]
