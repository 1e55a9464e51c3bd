"""Help: every command says what it does, with an example, in full phrases; at once, as nothing heavy is imported."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from muster.cli.app import COMMANDS, app_with

from .conftest import MUSTER, Outcome

Muster = Callable[..., Outcome]
COMPLETION = Path(__file__).parents[2] / "deploy" / "completion"
GENERATORS = ("synergy", "philly-like", "mixed", "smd", "slurm-month")


def test_the_list_of_commands_fits_a_small_screen_unshortened(muster: Muster) -> None:
    shown = muster("--help")
    assert shown.status == 0
    lines = shown.out.splitlines()
    # A screen of 24 lines has room for eight, and the second heading and --log-level take three.
    assert len(lines) <= 24 + len(COMMANDS) - 8 + 3
    assert max(map(len, lines)) <= 80
    for name, sentence in COMMANDS.items():
        assert any(line.split() == [name, *sentence.split()] for line in lines)


@pytest.mark.parametrize(
    "words", [*((name,) for name in COMMANDS), *(("generate", kind) for kind in GENERATORS)]
)
def test_each_command_fits_two_screens_and_shows_an_example(muster: Muster, words: tuple[str, ...]) -> None:
    shown = muster(*words, "--help")
    assert (shown.status, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("Example: muster ") for line in lines)


FRAGMENTS = {
    *(
        "A",
        "Also",
        "And",
        "As",
        "At",
        "Else",
        "For",
        "From",
        "In",
        "It",
        "Its",
        "Likewise",
        "Of",
        "On",
        "Only",
    ),
    *("Same", "So", "Such", "Their", "Then", "Until", "Which", "Whose", "With"),
}
"""First words of what is no phrase of its own."""


def parameters_of(name: str) -> Iterator[Any]:
    command: Any = typer.main.get_command(app_with(name)).commands[name]  # type: ignore[attr-defined]
    for each in getattr(command, "commands", {"": command}).values():
        yield from (parameter for parameter in each.params if parameter.help != "Show this message and exit.")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_texts_are_phrases_that_state_the_default(name: str) -> None:
    for parameter in parameters_of(name):
        sentence = parameter.help or ""
        assert re.match(r"[A-Z]\S+ ", sentence), (parameter.name, sentence)
        assert re.split(r"\W", sentence)[0] not in FRAGMENTS, (parameter.name, sentence)
        assert sentence.endswith("."), (parameter.name, sentence)
        if parameter.param_type_name == "option" and not (
            parameter.required or parameter.is_flag or parameter.multiple
        ):
            is_shown = isinstance(parameter.show_default, str) or (
                parameter.show_default and parameter.default is not None
            )
            assert is_shown or re.search(r"\(default: .+\)\.$|; required", sentence), (
                parameter.name,
                sentence,
            )


@pytest.mark.parametrize("name", ["simulate", "compare"])
def test_what_help_leaves_out_stands_in_the_longer_help(muster: Muster, name: str) -> None:
    short, long = muster(name, "--help").out, muster(name, "--help-all").out
    assert long.startswith(short)
    signature = inspect.signature(getattr(importlib.import_module(f"muster.cli.{name}"), name))
    flags = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", long, re.MULTILINE)
    # The trace is an argument; help has a flag and no parameter.
    assert len(flags) == len(set(flags)) == len(signature.parameters)
    assert "--congestion" not in short
    for needed in (
        "--cluster",
        "--round-origin",
        "--measure",
        "--rules",
        "--knowledge",
        "--set",
        "--help-all",
    ):
        assert needed in short


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "polars", "pydantic", "scipy", "numba", "altair", "highspy", "muster.simulation")
    code = (
        f"import sys; from muster.cli.app import run; run(['--help']); print({{*{heavy}}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_version_and_nothing(muster: Muster) -> None:
    assert muster("--version").out.startswith("muster 0.")
    nothing = muster()
    assert nothing.status == 2
    assert "Commands:" in nothing.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulat",), "Did you mean 'simulate'"),
        (("simulate",), "Missing argument 'TRACE'"),
        (("simulate", "x.csv"), "Missing option '--cluster'"),
        (("compare", "x.csv", "--cluster", "y", "--bogus"), "No such option: --bogus"),
        (("capacity", "x.csv", "--cluster", "y", "--certify"), "No such option: --certify"),
        (("calibrate", "x.csv", "--cluster", "y", "--certify"), "No such option: --certify"),
        (
            ("simulate", "x.csv", "--cluster", "y", "--seed", "many"),
            "--seed: found 'many'; allowed: a whole number from 0 on",
        ),
        (("generate", "smd", "--jobs", "1.5", "-o", "x"), "--jobs: found '1.5'; allowed: a whole number\n"),
        (("generate", "smd", "--ring", "2"), "--ring: found '2'; allowed: a number from 0 to 1"),
        (
            ("priority", "high", "1"),
            "PRIORITY: found 'high'; allowed: a number from -1,000,000,000 to 1,000,000,000",
        ),
        (("cancel", "1", "0"), "JOB: found '0'; allowed: a whole number from 1 on"),
        (("--log-level", "all", "nodes"), "--log-level: found 'all'; allowed: debug, info, warning, error"),
    ],
)
def test_a_wrong_command_line_is_explained(muster: Muster, words: tuple[str, ...], said: str) -> None:
    refused = muster(*words)
    assert refused.status == 2
    assert said in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("muster sim", "simulate"),
        ("muster compare --work", "--workers"),
        ("muster generate phil", "philly-like"),
    ],
)
def test_a_shell_completes_commands_and_flags(line: str, offered: str) -> None:
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "_MUSTER_COMPLETE": "complete_bash",
    }
    done = subprocess.run(MUSTER, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [offered]


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "muster.bash"), ("zsh", "_muster"), ("fish", "muster.fish")]
)
def test_the_wheel_ships_the_completion_of_each_shell(shell: str, file: str) -> None:
    asked = os.environ | {"_MUSTER_COMPLETE": f"source_{shell}"}
    done = subprocess.run(MUSTER, env=asked, capture_output=True, text=True, check=False)
    assert (COMPLETION / file).read_text().strip() == done.stdout.strip()


def test_bash_completes_with_the_shipped_script() -> None:
    script = f'''PATH="{Path(sys.executable).parent}:$PATH"; source {COMPLETION / "muster.bash"}
        COMP_WORDS=(muster sim) COMP_CWORD=1; _muster_completion muster; echo "${{COMPREPLY[@]}}"'''
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("simulate\n", "")


def test_the_package_runs_as_the_command() -> None:
    as_module = [sys.executable, "-m", "muster"]
    for words in (["--version"], ["serve", "--help"], ["simulat"]):
        done, same = (
            subprocess.run([*command, *words], capture_output=True, text=True, check=False)
            for command in (as_module, MUSTER)
        )
        assert (done.returncode, done.stdout, done.stderr) == (same.returncode, same.stdout, same.stderr)
    assert (done.returncode, "No such command 'simulat'" in done.stderr) == (2, True)


def test_the_completion_script_is_shown() -> None:
    # It goes by the shell that it runs under, so one must be there.
    under_bash = ["bash", "-c", '"$@"; exit $?', "bash", *MUSTER, "--show-completion"]
    shown = subprocess.run(under_bash, capture_output=True, text=True, check=False)
    assert "complete -o default -F _muster_completion muster" in shown.stdout
