"""The colours of the map: which differ, and what its key says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.shipped import parse_cluster
from muster.service.pages.map_colours import first_jobs, first_jobs_held, hashed_colours
from muster.service.pages.rendering import COLOURS, colour_class
from muster.service.store.rows import Caller, Submission
from muster.service.tokens import create_token

from ..serving import Serving, a_request
from .conftest import LogIn
from .test_pages import run_job


def test_key_names_users_by_their_oldest_job(api: Serving, log_in: LogIn) -> None:
    api.status.cluster = parse_cluster("1x8gpu,8cpu,32gb")
    names = [f"user <{number}>" for number in range(COLOURS + 1)]
    jobs = api.store.submit([Submission(name, a_request()) for name in [*names, names[0]]])
    for gpu, job in enumerate(reversed(jobs)):
        run_job(api, job, gpus=(gpu,))

    def shown(path: str, user: str = "root") -> str:
        return api.ask("GET", path, headers=log_in(user), tcp=True).body.decode()

    page = shown("/nodes?by=user")
    for at, name in enumerate(names[:COLOURS], start=1):
        written = name.replace("<", "&lt;").replace(">", "&gt;")
        assert f'<span class="swatch c{at}"></span>{written}</li>' in page
        assert f'class="cell busy c{at}" href="/jobs/{jobs[at - 1]}"' in page
    assert '<span class="swatch others"></span>others</li>' in page
    assert f'class="cell busy others" href="/jobs/{jobs[COLOURS]}"' in page
    assert f'class="cell busy c1" href="/jobs/{jobs[-1]}"' in page
    assert 'class="swatch' not in shown("/nodes?by=job")
    assert '<span class="swatch c1"></span>unknown</li>' in shown("/nodes?by=model")
    of_one = shown("/nodes?by=user", names[1])
    assert of_one.count('class="swatch') == 2
    assert '<span class="swatch others"></span>others</li>' in of_one


@given(st.lists(st.lists(st.integers(1, 40), max_size=COLOURS, unique=True), max_size=6))
def test_jobs_of_one_node_differ(nodes: list[list[int]]) -> None:
    """As far as no job lies on several nodes; a job that is alone has its usual colour."""
    seen: set[int] = set()
    apart: list[list[int]] = []
    for node in nodes:
        apart.append([job for job in node if job not in seen])
        seen.update(node)
    found = hashed_colours([[(job, job) for job in node] for node in apart])
    assert found.keys() == seen
    for node in apart:
        assert len({found[job] for job in node}) == len(node)
        if node:
            assert found[min(node)] == colour_class(min(node))


def test_the_timeline_has_the_jobs_of_the_map(api: Serving) -> None:
    """For operators and for users, also where several jobs share a GPU."""
    mine, *others = api.store.submit([Submission(user, a_request()) for user in ("ann", "bob", "ann", "ann")])
    held_by = {others[0]: (0, 1), others[1]: (1, 2), others[2]: (3,), mine: (2, 3)}
    for job, gpus in held_by.items():
        run_job(api, job, "node-0", gpus)
    for caller in (Caller("root", operator=True), Caller("ann", operator=False)):
        by_id = api.store.holders(None if caller.operator else caller.user)
        held = api.store.allocation_intervals(open_only=True)
        token = create_token(api.store, caller.user, operator=caller.operator, engine=None).text
        machines = api.ask("GET", "/v1/nodes", token=token).json["nodes"]
        on_map = sorted(sorted(node) for node in first_jobs(machines) if node)
        assert sorted(sorted(node) for node in first_jobs_held(held, by_id)) == on_map
