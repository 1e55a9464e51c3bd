"""`muster why`: why a job waits."""

from __future__ import annotations

import textwrap

from muster.cli import flags
from muster.cli.service_view import JobId


def why(job: JobId, as_json: flags.Json = False) -> None:
    """Say why a job waits, who is ahead, when it may start.

    Example: muster why 17
    """
    from muster.cli.runs import as_json_text
    from muster.service.client import Client

    with Client.of_environment() as client:
        told = client.get(f"/v1/jobs/{job}/why")
    if as_json:
        print(as_json_text(told), end="")
    else:
        for sentence in told["sentences"]:
            print(textwrap.fill(sentence, 79))
