"""The states of Slurm's jobs, as `sacct` of all versions writes them."""

from __future__ import annotations

import re

_ENDED = (
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
)
_STATES = frozenset(_ENDED) | {
    *("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING"),
    *("STAGE_OUT", "STOPPED", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    *("POWER_UP_NODE", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "EXPEDITING"),
}

OPEN = (
    r"^(PENDING|RUNNING|SUSPENDED|CONFIGURING|COMPLETING|REQUEUE|RESIZING|SIGNALING|STAGE_OUT|STOPPED"
    r"|SPECIAL_EXIT|RESV_DEL_HOLD|POWER_UP_NODE|EXPEDITING)"
)
"""A pattern of the states of jobs that wait or run; there is more than one word for a job that goes on."""
ALLOWED = f"allowed: a state of Slurm's jobs, as PENDING, RUNNING, {', '.join(_ENDED)}"


def full_state(text: str) -> str | None:
    """The first word of a cell as a state; a narrow column may cut it short, as `OUT_OF_ME+`. None: there is none."""
    said = re.match(r"([A-Z_]*)(\+?)(?:\s|$)", text.strip().upper())
    if said is None:
        return None
    word, cut = said.groups()
    if word in _STATES or not (word or cut):
        return word
    longer = [state for state in _STATES if cut and state.startswith(word)]
    return longer[0] if len(longer) == 1 else None
