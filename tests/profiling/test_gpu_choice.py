"""Which GPU a profile uses, with a scripted nvidia-smi."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from muster.cli.app import run as run_command_line

NAMES = ("GPU-11", "GPU-22")
SHOW = "import os; raise SystemExit('may use <' + os.environ.get('CUDA_VISIBLE_DEVICES', 'all') + '>')"
SMI = """#!/bin/sh
case "$*" in
-L) {listed} ;;
*compute-apps*) {busy} ;;
*) exit 2 ;;
esac
"""


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *, gpus: int, busy: tuple[str, ...]) -> None:
    """Two GPUs, some of them busy."""
    listed = "; ".join(f"echo 'GPU {number}: NVIDIA H200 (UUID: {NAMES[number]})'" for number in range(gpus))
    script = folder / "nvidia-smi"
    script.write_text(
        SMI.format(listed=listed or "true", busy="; ".join(f"echo '{one}, 1'" for one in busy) or "true")
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def what_a_profile_says(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    words = ["profile", *flags, "--out", str(folder / "never.toml"), "--", sys.executable, "-c", SHOW]
    assert run_command_line(words) == 2
    reply = capsys.readouterr()
    return reply.out + reply.err


@pytest.mark.parametrize(("busy", "chosen"), [((), "0"), (NAMES[:1], "1"), (NAMES[1:], "0")])
def test_a_profile_takes_an_idle_gpu(
    busy: tuple[str, ...],
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=2, busy=busy)
    assert f"may use <{chosen}>\n" in what_a_profile_says(tmp_path, capsys)


def test_a_profile_takes_a_busy_gpu_only_if_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=2, busy=NAMES)
    assert "--gpu: found '0, 1'; every GPU is in use" in what_a_profile_says(tmp_path, capsys)
    assert "may use <1>\n" in what_a_profile_says(tmp_path, capsys, "--gpu", "1")
    assert "may use <>\n" in what_a_profile_says(tmp_path, capsys, "--gpu", "")


@pytest.mark.parametrize(
    ("named", "chosen"), [("1", "1"), ("1,0", "1"), ("GPU-2", "GPU-2"), ("-1", "-1"), (" 1", " 1")]
)
def test_a_profile_takes_the_gpus_that_are_named(
    named: str,
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=2, busy=())
    assert f"may use <{chosen}>\n" in what_a_profile_says(tmp_path, capsys, "--gpu", named)


@pytest.mark.parametrize(
    ("gpus", "visible", "named", "refusal"),
    [
        (2, None, "7", "--gpu: found '7'; allowed: GPUs of this machine, each once: 0, 1\n"),
        (2, None, "1,gpu1,1", "--gpu: found '1,gpu1,1'; allowed: GPUs of this machine, each once: 0, 1\n"),
        (2, None, "0,GPU-1", "--gpu: found '0,GPU-1'; allowed: GPUs of this machine, each once: 0, 1\n"),
        (2, "1", "0", "--gpu: found '0'; allowed: GPUs of this machine, each once: 1\n"),
        (2, "", "0", "--gpu: found '0'; allowed: '' for none, as CUDA_VISIBLE_DEVICES hides all of them"),
        (0, None, "0", "--gpu: found '0'; allowed: '' for none, as nvidia-smi: lists no GPU\n"),
    ],
)
def test_a_profile_refuses_gpus_that_are_not_there(
    gpus: int,
    visible: str | None,
    named: str,
    refusal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=gpus, busy=())
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert refusal in what_a_profile_says(tmp_path, capsys, "--gpu", named)


def test_gpus_that_are_not_listed_are_taken_as_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=0, busy=())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert "may use <3>\n" in what_a_profile_says(tmp_path, capsys, "--gpu", "3")


def test_without_a_gpu_there_is_none_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi(tmp_path, monkeypatch, gpus=0, busy=())
    assert "may use <all>\n" in what_a_profile_says(tmp_path, capsys)
