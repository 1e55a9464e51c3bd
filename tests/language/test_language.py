"""The language check notices an excluded word in a name, a text and a page, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.__main__ import found_in


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def heed_wishes(self):", ["heed", "wishes"]),
        ("class LivingSeats:", ["Seats"]),
        ('"""Whoever asks is told."""', ["Whoever", "told"]),
        ("raise InputError('a number is needed')", []),
        ("The ledger is unsettled; details follow.", []),
        ("the mother tongue, wishful", []),
    ],
)
def test_excluded_words_are_found_in_names_and_text(tmp_path: Path, line: str, words: list[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"first\n{line}\n")
    assert found_in(page) == [(2, word) for word in words]
