"""Commands that take groups of flags as dataclasses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
import typer.core
from typer.testing import CliRunner

from muster.cli.flag_groups import takes_flag_groups
from muster.cli.help import RARELY_NEEDED, Command


@dataclass(frozen=True)
class Size:
    """A group with a flag that is needed and one that is not."""

    width: Annotated[int, typer.Option(metavar="N", help="Columns.")]
    height: Annotated[int, typer.Option(metavar="N", help="Rows.")] = 7


@dataclass(frozen=True)
class Ink:
    """A group whose flags are rarely needed."""

    colours: Annotated[list[str] | None, typer.Option("--colour", rich_help_panel=RARELY_NEEDED)] = None
    thick: Annotated[bool, typer.Option("--thick", rich_help_panel=RARELY_NEEDED, help="Wide lines.")] = False


@takes_flag_groups(more_help="Also: ink.")
def paint(word: str, *, size: Size, ink: Ink, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Print what came."""
    print(word, size, ink, loud)


def run(*arguments: str) -> str:
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=Command)(paint)
    result = CliRunner().invoke(app, arguments)
    return result.output


def test_a_command_gets_each_group_with_what_was_typed() -> None:
    typed = run("hello", "--loud", "--width", "3", "--colour", "red", "--colour", "blue", "--thick")
    assert typed == f"hello {Size(3)} {Ink(['red', 'blue'], thick=True)} True\n"
    assert run("hello", "--width", "3") == f"hello {Size(3)} {Ink()} False\n"


def test_a_field_without_default_is_a_needed_flag() -> None:
    assert "Missing option '--width'" in run("hello")


def test_flags_stand_at_the_place_of_their_group() -> None:
    names = list(inspect.signature(paint).parameters)
    assert names == ["word", "width", "height", "colours", "thick", "loud", "more_help"]


def test_rarely_needed_flags_of_a_group_need_help_all() -> None:
    assert "--thick" not in run("--help")
    assert "--thick" in run("--help-all")
    assert "Also: ink." in run("--help")


def test_a_call_from_python_leaves_defaults_out(capsys: pytest.CaptureFixture[str]) -> None:
    paint("hello", width=4, loud=True)
    assert capsys.readouterr().out == f"hello {Size(4)} {Ink()} True\n"


def test_no_help_all_where_nothing_is_rare() -> None:
    def plain(*, size: Size) -> None:
        """Print the size."""

    assert list(inspect.signature(takes_flag_groups()(plain)).parameters) == ["width", "height"]
