"""What a training job imports: it joins its scheduler, caches its data, survives being stopped.

    from muster import training

    run = training.join()
    data = training.CachedDataset(dataset)
    for batch in run.steps(loader, state={"model": model, "optimizer": optimizer}, epochs=3):
        ...

Without a scheduler the same script trains the same way, alone. `docs/how-to/training.md` has the guarantees and
the protocol; its scheduler's side is `muster.training.run_folder`, and `muster.training.unchanged` is for
jobs that cannot be changed. Needs NumPy; PyTorch is used where the job has imported it.
"""

from muster.training.cache import CachedDataset
from muster.training.run import TrainingRun, join

__all__ = ["CachedDataset", "TrainingRun", "join"]
