"""GPU isolation: a start opens its own GPUs and is refused those of others, by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cgroups import CgroupError, Cgroups, Group, find_cgroups
from muster.cgroups.finding import mounted_trees
from muster.gpu_devices import GpuDevices, find_gpu_devices
from muster.service.engines import Exit
from muster.service.engines.local import engine as engine_module
from muster.service.machine import Machine, find_machine
from tests.service.engines.bench import Bench, python


def with_stand_ins(count: int) -> Machine:
    """A machine of so many GPUs, each with a device that is none: /dev/zero, /dev/full, /dev/random in their place."""
    numbers = dict(zip("012", ((1, 5), (1, 7), (1, 8)), strict=True))
    devices = GpuDevices(
        frozenset(numbers.values()), {str(name): numbers[str(name)] for name in range(count)}
    )
    return replace(find_machine(gpus=count), gpu_names=tuple(map(str, range(count))), gpu_devices=devices)


@pytest.fixture(params=["this machine's groups", "cgroup v2"])
def isolating(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """With the groups that the engine finds, and with those of v2 even where it has no controllers."""
    if request.param == "cgroup v2":
        trees = [mount for kind, _, _, mount in mounted_trees() if kind == "cgroup2"]
        if not trees or not os.access(trees[0], os.W_OK):
            pytest.skip("cgroup v2 is not mounted, or not for this user")
        monkeypatch.setattr(
            engine_module, "find_cgroups", lambda: (Cgroups(2, {"": trees[0]}, trees[:1]), "v2")
        )
    bench = Bench(tmp_path, with_stand_ins(2))
    if "GPUs: device filter" not in bench.engine.enforces:
        pytest.skip(bench.engine.enforces)
    yield bench
    bench.clear()


OPENING = """
import os
for name in ("zero", "full", "random", "null"):
    try: open("/dev/" + name).close()
    except OSError as error: print(name, error.errno)
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""


@pytest.mark.parametrize(
    ("gpus", "output"),
    [
        ((0,), "full 1\nrandom 1\n0\n"),
        ((1,), "zero 1\nrandom 1\n0\n"),
        ((1, 0), "random 1\n1,0\n"),
        ((), "zero 1\nfull 1\nrandom 1\n\n"),
    ],
)
def test_a_start_opens_its_own_gpus_only(isolating: Bench, gpus: tuple[int, ...], output: str) -> None:
    """With EPERM for the others, also for one that no job may use; CUDA numbers only those that it can open."""
    isolating.launch(1, 1, python(OPENING), gpus=gpus)
    assert isolating.end(1, 1).ended is Exit.COMPLETED
    assert isolating.output(1) == output


def test_two_starts_have_filters_of_their_own(isolating: Bench) -> None:
    for job in (1, 2):
        isolating.launch(job, 1, python(OPENING), gpus=(job - 1,))
    for job, output in ((1, "full 1\nrandom 1\n0\n"), (2, "zero 1\nrandom 1\n0\n")):
        isolating.end(job, 1)
        assert isolating.output(job) == output


def test_a_filter_stays_when_the_daemon_comes_back(isolating: Bench) -> None:
    waiting = "import os\nprint('up', flush=True)\nwhile not os.path.exists('go'): pass\n" + OPENING
    isolating.launch(1, 1, python(waiting), gpus=(1,))
    isolating.says("up", 1)
    assert "GPUs: device filter" in isolating.reopen().enforces
    (isolating.folder / "go").touch()
    isolating.end(1, 1)
    assert isolating.output(1) == "up\nzero 1\nrandom 1\n0\n"


def test_a_start_does_not_begin_without_its_filter(isolating: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What worked when the engine started fails now: the start is lost, its command never ran."""

    def refuse(group: Group, devices: object) -> None:
        raise CgroupError(f"group {group.name} cannot have a device filter: Operation not permitted (bpf)")

    isolating.launch(1, 1, python("print('never')"))  # one that is up, so that its class is at hand
    isolating.end(1, 1)
    group = isolating.engine._starts[1, 1].group
    monkeypatch.setattr(type(group), "deny_devices", refuse)
    monkeypatch.setattr(engine_module, "SUPERVISOR_SECONDS", 0.0)
    isolating.launch(2, 1, python("print('never')"))
    end = isolating.end(2, 1)
    assert end.ended is Exit.LOST
    assert end.message.startswith("its supervisor did not come up: group ")
    assert end.message.endswith("cannot have a device filter: Operation not permitted (bpf)")
    assert isolating.output(2) == ""


def test_without_groups_gpus_are_kept_by_environment(way: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, with_stand_ins(2))
    if way == "no cgroups":
        assert "GPUs: environment only, which a job can undo (no control groups)" in bench.engine.enforces
        bench.launch(1, 1, python(OPENING), gpus=(1,))
        bench.end(1, 1)
        assert bench.output(1) == "1\n"
    unknown = GpuDevices(bench.machine.gpu_devices.every, {}, ("0", "1"))
    bench = Bench(tmp_path, replace(bench.machine, gpu_devices=unknown))
    assert "no device node is known of GPU 0, 1" in bench.engine.enforces
    bench.clear()


def test_a_refused_filter_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: Group, devices: object) -> None:
        raise CgroupError("the kernel refuses")

    cgroups, how = find_cgroups()
    if cgroups is None:
        pytest.skip(how)
    group = cgroups.group(f"test-{os.getpid()}")
    group.remove()
    monkeypatch.setattr(type(group), "deny_devices", refuse)
    bench = Bench(tmp_path, with_stand_ins(2))
    assert "GPUs: environment only, which a job can undo (the kernel refuses)" in bench.engine.enforces
    bench.launch(1, 1, python(OPENING), gpus=(1,))
    bench.end(1, 1)
    assert bench.output(1) == "1\n"
    bench.clear()


def test_gpus_are_found_with_their_devices(tmp_path: Path) -> None:
    """The driver numbers its devices in its own order, and an instance has the device of its GPU."""
    driver, nodes = tmp_path / "gpus", tmp_path / "dev"
    nodes.mkdir()
    for at, (uuid, minor) in enumerate((("GPU-aa", 1), ("GPU-bb", 0), ("GPU-cc", 7))):
        (driver / f"0000:0{at}:00.0").mkdir(parents=True)
        fields = {"Model": "NVIDIA A100", "GPU UUID": uuid, "Bus Location": f"0000:0{at}:00.0"}
        text = "".join(f"{name}: \t {value}\n" for name, value in (fields | {"Device Minor": minor}).items())
        (driver / f"0000:0{at}:00.0" / "information").write_text(text)
    (nodes / "nvidia7").touch()
    for name, device in (
        ("nvidia0", (1, 5)),
        ("nvidia1", (1, 7)),
        ("nvidiactl", (1, 3)),
        ("nvidia2", (1, 8)),
    ):
        try:
            os.mknod(nodes / name, 0o20600, os.makedev(*device))
        except PermissionError:
            pytest.skip("this user cannot make a device node")
    uuid_of = {"0": "GPU-aa", "MIG-1": "GPU-bb", "MIG-2": "GPU-bb", "2": "GPU-cc", "3": ""}
    found = find_gpu_devices(uuid_of, driver, nodes)
    assert found.of_name == {"0": (1, 7), "MIG-1": (1, 5), "MIG-2": (1, 5)}
    assert found.every == {(1, 5), (1, 7), (1, 8)}
    assert found.unknown == ("2", "3")
    assert found.shared
