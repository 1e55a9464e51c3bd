"""What open pages cost the API alone, in CPU time: `python -m benchmarks.pages_alone`.

The API with its pages on a store of 10,000 jobs, of which 4,096 run on 512 nodes, in a process of its own and without a
controller; 100 pages that do what the script of a page does are in this one.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.pages import OPEN, PATHS, OpenPage, Visitor
from benchmarks.service import CLUSTER
from muster.cluster.ledger import NodeAllocation
from muster.service.daemon import leave_out_of_collections
from muster.service.home import make_home, store_url
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, State, StoreChanges, Submission
from tests.service.pages.conftest import logged_in
from tests.service.serving import a_request, a_status, serving_on

JOBS, RUNNING, GPUS = 10_000, 4_096, 8
SETTLED_SECONDS, REST_SECONDS, CHANGES, APART_SECONDS = 12.0, 30.0, 8, 3.0


def serve(asked: Connection, folder: str) -> None:
    """Serve until asked to end; answer with the CPU seconds of this process, or submit a job."""
    home = Path(folder)
    make_home(home)
    store = Store.open(store_url(home))
    _fill(store)
    with serving_on(store, a_status(home, CLUSTER), home) as api:
        leave_out_of_collections()
        asked.send((f"127.0.0.1:{api.port}", logged_in(api, "root")))
        while (what := asked.recv()) != "end":
            if what == "submit":
                store.submit([Submission("ann", a_request())])
            asked.send(time.process_time())


def main() -> None:
    """Measure and print."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        server = spawn.Process(target=serve, args=(there, folder))
        server.start()
        visitor = Visitor(*here.recv())
        print(f"share of a core without pages       {_share(here):.2%}", flush=True)
        pages = [OpenPage(visitor, PATHS[at % len(PATHS)]) for at in range(OPEN)]
        for page in pages:
            page.start()
        time.sleep(SETTLED_SECONDS)
        print(f"with {OPEN} pages, nothing changes    {_share(here):.2%}", flush=True)
        print(f"bodies that they asked for          {sum(page.asked for page in pages)}", flush=True)
        began = _ask(here, "cpu")
        for _ in range(CHANGES):
            _ask(here, "submit")
            time.sleep(APART_SECONDS)
        used = (_ask(here, "cpu") - began) / CHANGES
        asked, came = sum(page.asked for page in pages), sum(page.fetched for page in pages)
        print(f"CPU seconds for a change            {used:.2f} ({asked} requests in all, {came} with a body)")
        here.send("end")
        server.join(30.0)
        server.kill()


def _fill(store: Store) -> None:
    jobs = store.submit([Submission("ann", a_request(name="load")) for _ in range(JOBS)])
    changes = StoreChanges()
    for at, job in enumerate(jobs[:RUNNING]):
        changes.job(job, state=State.RUNNING, epoch=1, first_start=1.0, last_start=1.0, reason="placed")
        node, gpu = divmod(at, GPUS)
        held = NodeAllocation[str](node=f"node-{node}", gpu_ids=(gpu,), cpus=2.0, memory_gb=40.0, milli=1000)
        changes.opened.append(AllocationInterval(job, 1, held, 1.0))
        changes.event(job, 1.0, "started")
    with store.claimed():
        store.commit(changes)


def _share(server: Connection) -> float:
    """Of a core, over some time."""
    before = _ask(server, "cpu")
    time.sleep(REST_SECONDS)
    return (_ask(server, "cpu") - before) / REST_SECONDS


def _ask(server: Connection, what: str) -> float:
    server.send(what)
    found: Any = server.recv()
    return float(found)


if __name__ == "__main__":
    main()
