"""`muster dashboard`: the daemon's page in a browser."""

from __future__ import annotations

from typing import Annotated

import typer


def dashboard(
    open_browser: Annotated[
        bool,
        typer.Option("--open/--no-open", help="Open a browser, or only print the address."),
    ] = True,
) -> None:
    """Open the live page of the daemon, logged in as you.

    Example: muster dashboard --no-open
    """
    import webbrowser

    from muster.service.client import Client

    with Client.of_environment() as client:
        made = client.post("/v1/login-codes")
    page = client.url.rstrip("/") if client.url.startswith("http") else made["url"]
    address = f"{page}/login#{made['code']}"
    if open_browser and webbrowser.open(address):
        print(f"The page at {page} is open in your browser.")
    else:
        print(f"Open this address within a minute; it logs you in once:\n{address}")
