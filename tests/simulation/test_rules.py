"""Rules of a simulation and the schedulers that they set."""

from __future__ import annotations

import re

import pytest

from muster.problems import InputError
from muster.simulation import Rules

PUBLISHED = Rules("published", "As another simulator.", settings={"preemptive": "true"})


def test_rules_refuse_a_scheduler_without_their_settings() -> None:
    """The user has typed no --set that could be wrong."""
    assert PUBLISHED.settings_for("fifo+tune") == {"preemptive": "true"}
    found = "--scheduler: found 'fifo+easy'; --rules published sets preemptive, which this scheduler does not have"
    with pytest.raises(InputError, match=f"^{re.escape(found)}$"):
        PUBLISHED.settings_for("fifo+easy")
