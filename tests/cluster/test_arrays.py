"""Arrays that compiled code makes longer."""

from __future__ import annotations

import numpy as np
import pytest

from muster.cluster.arrays import grow


@pytest.mark.parametrize("longer", [3, 4, 5_000_000])
def test_a_longer_array_keeps_what_it_held(longer: int) -> None:
    array = np.zeros(3, [("job", np.int32), ("seconds", np.float64)])
    array["job"], array["seconds"] = [1, 2, 3], [0.5, 1.5, 2.5]
    grow(array, longer)
    assert array.shape == (longer,)
    assert array["job"][:3].tolist() == [1, 2, 3]
    assert array["seconds"][:3].tolist() == [0.5, 1.5, 2.5]
    array["job"] = 7
    assert array["job"][-1] == 7


def test_an_array_grows_by_whole_rows() -> None:
    array = np.arange(6.0).reshape(3, 2).copy()
    grow(array, 4)
    assert array.shape == (4, 2)
    assert array[:3].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_a_view_is_not_made_longer() -> None:
    array = np.zeros(8)
    with pytest.raises(ValueError, match="not a view"):
        grow(array[:4], 8)


def test_an_array_is_not_made_shorter() -> None:
    with pytest.raises(ValueError, match="an array of 8 cannot grow to 4"):
        grow(np.zeros(8), 4)
