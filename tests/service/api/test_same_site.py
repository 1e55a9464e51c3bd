"""Which requests of a browser may change something: by the site that the browser names, or else by the origin."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from muster.service.api.failures import Refused
from muster.service.api.service import check_same_site

OWN = {"host": "gpu1:8080", "origin": "http://gpu1:8080"}


def request(method: str, headers: dict[str, str]) -> Request:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "headers": lines})


@pytest.mark.parametrize(
    "headers",
    [OWN, {"sec-fetch-site": "same-origin"}, OWN | {"sec-fetch-site": "same-origin", "origin": "null"}],
)
def test_the_own_page_may_change_things(headers: dict[str, str]) -> None:
    check_same_site(request("POST", headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "gpu1:8080"},
        {"origin": "http://gpu1:8080"},
        OWN | {"origin": "http://gpu1:8081"},
        OWN | {"origin": "null"},
        OWN | {"sec-fetch-site": "cross-site"},
        OWN | {"sec-fetch-site": "same-site"},
    ],
)
def test_another_page_only_reads(headers: dict[str, str]) -> None:
    with pytest.raises(Refused, match="from a page of another site"):
        check_same_site(request("DELETE", headers))
    check_same_site(request("GET", headers))
