"""The type of structured NumPy arrays: a column that an array does not have is an error of the type checker.

Declare the columns of a layout, and annotate arrays with their type:

    NODE = np.dtype([("free", np.int64), ("rack", np.int64)])
    NodeArray: TypeAlias = Structured[Literal["free", "rack"]]

`nodes["frei"]` and `nodes[3]["frei"]` then fail in mypy. The array itself is a plain `numpy.ndarray`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.cluster.resources import MOST_RESOURCES, RESOURCE_COUNT

ColumnT = TypeVar("ColumnT", bound=str)
Index: TypeAlias = SupportsIndex | slice | tuple[Any, ...] | list[int] | NDArray[Any]


class Structured(Any, Generic[ColumnT]):  # type: ignore[misc]  # values have the methods of arrays and numbers
    """A structured array with these columns, a part of one, a record of one, or the values of a column."""

    if TYPE_CHECKING:

        def __getitem__(self, key: ColumnT | Index) -> Structured[ColumnT]: ...

        def __setitem__(self, key: ColumnT | Index, value: object) -> None: ...

        def __eq__(self, other: object) -> Any: ...

        def __ne__(self, other: object) -> Any: ...

        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __add__: Any
        __sub__: Any
        __mul__: Any
        __truediv__: Any
        __floordiv__: Any
        __mod__: Any
        __pow__: Any
        __and__: Any
        __or__: Any
        __xor__: Any
        __lshift__: Any
        __rshift__: Any
        __neg__: Any
        __invert__: Any

        def __iter__(self) -> Iterator[Structured[ColumnT]]: ...

        def __len__(self) -> int: ...


def layout_of(*fields: tuple[Any, ...]) -> np.dtype[Any]:
    """The layout of records with these fields, as for `numpy.dtype`, but with room for `MOST_RESOURCES` amounts.

    A field of one amount a resource takes that room whatever the resources are, so that compiled code knows all places.
    """
    names, formats, offsets, end = [], [], [], 0
    for name, *of_field in fields:
        one = np.dtype((of_field[0], of_field[1])) if len(of_field) > 1 else np.dtype(of_field[0])
        names.append(name)
        formats.append(one)
        offsets.append(end)
        a_resource = len(of_field) > 1 and of_field[1] == (RESOURCE_COUNT,)
        end += one.base.itemsize * MOST_RESOURCES if a_resource else one.itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})


def zero_records(shape: int | tuple[int, ...], layout: np.dtype[Any]) -> Any:
    """Returns a structured array of zeros. Assign it to a variable with the type of its columns."""
    return np.zeros(shape, layout)
