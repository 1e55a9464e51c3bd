"""What a checkpoint holds, and that those of an earlier Muster are understood."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster import training
from muster.problems import InputError
from muster.training import states
from muster.training.run_folder import give_notice

Become = Callable[..., None]


def stop_at(run_dir: Path, epoch: int, step: int, loader: Any, state: dict[str, Any]) -> list[Any]:
    run, seen = training.join(seed=4), []
    try:
        for batch in run.steps(loader, state=state, epochs=2):
            seen.append(batch)
            if run.step == step:
                give_notice(run_dir, epoch, stop=True)
    except SystemExit:
        pass
    return seen


def as_before(run_dir: Path) -> None:
    """Rewrites the newest checkpoint as it was when one place and one seed stood for all processes."""
    path = max(run_dir.glob("checkpoints-*/step-*"))
    is_pickle = path.suffix == ".pickle"
    if is_pickle:
        content = pickle.loads(path.read_bytes())
    else:
        torch = pytest.importorskip("torch")
        content = torch.load(path, weights_only=False)
    place = {name: content["places"][0][name] for name in ("step", "epoch", "position", "batches", "seed")}
    old = {name: content[name] for name in ("processes", "state", "random")} | {"place": place}
    path.unlink()
    aside = run_dir / "old"
    if is_pickle:
        aside.write_bytes(pickle.dumps(old))
    else:
        torch.save(old, aside)
    digest = hashlib.sha256(aside.read_bytes()).hexdigest()
    aside.rename(path.with_name(f"step-{place['step']:012d}-{digest}{path.suffix}"))


def test_a_checkpoint_of_the_first_format_goes_on(as_start: Become, tmp_path: Path) -> None:
    as_start(1)
    kept: dict[str, Any] = {"number": 5}
    assert stop_at(tmp_path, 1, 2, list(range(5)), {"kept": kept}) == [0, 1, 2]
    as_before(tmp_path)
    as_start(2)
    kept = {}
    assert stop_at(tmp_path, 2, -1, list(range(5)), {"kept": kept}) == [3, 4, 0, 1, 2, 3, 4]
    assert kept == {"number": 5}


def test_a_checkpoint_of_the_first_format_is_checked(as_start: Become, tmp_path: Path) -> None:
    as_start(1)
    stop_at(tmp_path, 1, 2, list(range(5)), {})
    as_before(tmp_path)
    as_start(2)
    with pytest.raises(InputError, match="batches an epoch: found 6; the checkpoint was made with 5"):
        stop_at(tmp_path, 2, -1, list(range(6)), {})


@pytest.mark.needs_torch
def test_with_pytorch_too(as_start: Become, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def loader() -> Any:
        return torch.utils.data.DataLoader(list(range(12)), batch_size=3, shuffle=True, collate_fn=tuple)

    whole = stop_at(tmp_path, 0, -1, loader(), {})
    as_start(1)
    seen = stop_at(tmp_path, 1, 1, loader(), {})
    as_before(tmp_path)
    as_start(2)
    assert seen + stop_at(tmp_path, 2, -1, loader(), {}) == whole


class Average:
    """Keeps tensors of its own, which no framework moves."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def state_dict(self) -> dict[str, Any]:
        return {"weights": [self.weights]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        (self.weights,) = state["weights"]


@pytest.mark.needs_torch
def test_tensors_go_back_to_their_devices(
    as_start: Become, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there is no other device, one stands for it that has no content."""
    torch = pytest.importorskip("torch")
    gpu = "cuda" if torch.cuda.is_available() else "meta"

    def state() -> dict[str, Any]:
        model = torch.nn.Linear(2, 2).to("cuda" if gpu == "cuda" else "cpu")
        on_gpu = torch.nn.Parameter(torch.ones(3, device=gpu))
        of_another = torch.ones(3, device=gpu)
        return {
            "model": model,
            "ema": {"weights": on_gpu, "deep": [(of_another, 3)], "host": torch.ones(2)},
            "average": Average(torch.ones(2, device=gpu)),
        }

    as_start(1)
    before = state()
    stop_at(tmp_path, 1, 1, [1, 2, 3], before)
    as_start(2)
    after = state()
    # One that is there already gives the device; the others go to the device that was saved by name.
    del after["ema"]["weights"]
    stop_at(tmp_path, 2, -1, [1, 2, 3], after)
    ema = after["ema"]
    where = [tensor.device.type for tensor in (ema["weights"], ema["deep"][0][0], after["average"].weights)]
    assert where == [gpu] * 3
    assert isinstance(ema["weights"], torch.nn.Parameter)
    assert ema["host"].device.type == next(iter(before["model"].parameters())).device.type or gpu == "cuda"
    if gpu == "cuda":
        assert torch.equal(ema["weights"], torch.ones(3, device=gpu))
        assert ema["host"].device.type == "cpu"


@pytest.mark.needs_torch
def test_a_device_is_named_for_whichever_process_has_it_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of which a process makes use by default has no number; another one keeps it."""
    torch = pytest.importorskip("torch")

    class On:
        def __init__(self, device: str) -> None:
            self.device = torch.device(device)

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert [states._device(On(name)) for name in ("cuda:1", "cuda:0", "meta")] == ["cuda", "cuda:0", "meta"]
