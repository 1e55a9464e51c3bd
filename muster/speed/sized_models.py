"""Models on other numbers of GPUs than a gang asks for, as records of a table of models.

Such a record has the input stage and the compute of each GPU's part of the gang's total batch (`worker_options`), so
its speed is that of the whole gang: iterations a second, relative to the model's reference with the GPUs asked for.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Ints
from muster.cluster.structured import zero_records
from muster.speed.input_pipeline import MODEL_DTYPE, ModelTable
from muster.speed.local_batch import local_batches


class SizedModels:
    """A table of models that gets a record for each size once it is asked for."""

    def __init__(self, models: ModelTable) -> None:
        self.table = models
        self._given = models
        self._number: dict[tuple[int, int, int], int] = {}

    def of(self, model: Ints, asked: Ints, workers: Ints) -> Ints:
        """The record of each gang of `model` that asked for `asked` GPUs and has `workers` of them."""
        others = np.flatnonzero(asked != workers)
        records = model.copy()
        if not len(others):
            return records
        sizes = np.column_stack([model[others], asked[others], workers[others]])
        _, first, which = np.unique(
            np.ravel_multi_index(tuple(sizes.T), tuple(sizes.max(axis=0) + 1)),
            return_index=True,
            return_inverse=True,
        )
        numbers = np.empty(len(first), np.int64)
        for distinct in np.argsort(first).tolist():  # in the order in which they are asked for
            size = tuple(sizes[first[distinct]].tolist())
            if size not in self._number:
                self._number[size] = self._add(*size)
            numbers[distinct] = self._number[size]
        records[others] = numbers[which]
        return records

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """Model, GPUs asked for and GPUs of the sizes so far, in the order of their records."""
        return list(self._number)

    def _add(self, model: int, asked: int, workers: int) -> int:
        """Add the records of a size, one for each type of GPU on which the model is another one."""
        on_type = self._given["on_type"][model]
        records, type_of = np.unique(np.append(model, on_type), return_inverse=True)
        first = len(self.table)
        added: ModelTable = zero_records(len(records), MODEL_DTYPE)
        added[:] = self._given[records]
        samples, passes, last_pass = local_batches(
            self._given, records, np.full(len(records), asked / workers)
        )
        added["input_seconds"] *= samples[:, None, None]
        added["batch_gb"] *= samples
        added["compute_seconds"] *= passes * last_pass
        added["on_type"] = first + type_of.reshape(-1)[1:]
        table: ModelTable = zero_records(first + len(records), MODEL_DTYPE)
        table[:first], table[first:] = self.table, added
        self.table = table
        return first  # Records of a model's types come after its own.
