"""Fills the disk under a store and makes room again; prints what the store said. For `test_database.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from muster.service.request import JobRequest
from muster.service.store import Store, StoreUnavailable
from muster.service.store.rows import State, StoreChanges, Submission

folder = Path(sys.argv[1])
REQUEST = JobRequest(name="job", command=("x" * 3000,), directory="/")

store = Store.open(f"sqlite:///{folder / 'muster.db'}")
acknowledged = store.submit([Submission("ann", REQUEST)])
ballast = folder / "ballast"
refusals = []
with ballast.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
try:
    while True:
        acknowledged += store.submit([Submission("ann", REQUEST)])
except StoreUnavailable as error:
    refusals.append(str(error))
changes = StoreChanges(jobs={1: {"state": State.HELD}}, scheduler_state=b"x" * 100_000)
try:
    store.commit(changes)
except StoreUnavailable as error:
    refusals.append(str(error))
read_meanwhile = [row.id for row in store.living()]
ballast.unlink()
after = store.submit([Submission("ann", REQUEST)] * 2)
store.commit(changes)
store.close()

again = Store.open(f"sqlite:///{folder / 'muster.db'}")
first = again.job(1)
assert first is not None
reply = {
    "acknowledged": acknowledged,
    "refusals": refusals,
    "read_meanwhile": read_meanwhile,
    "after": after,
    "there": [row.id for row in again.living()],
    "state": first.state,
}
again.close()
print(json.dumps(reply))
