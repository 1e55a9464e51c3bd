"""`muster token`: the users of a daemon over TCP."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from muster.cli import flags
from muster.cli.help import Command

token = typer.Typer(
    help="Make, list and revoke access tokens.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: muster token create ann --role operator",
)

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Database to write the token into where no daemon runs (default: ask the daemon).",
    ),
]


@token.command(cls=Command)
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="User of the new token.")],
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role: user, or operator, which may see and control all jobs.")
    ] = "user",
    store: StoreUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Make a token for requests over TCP; it is shown this once.

    Example: muster token create ann --role operator
    """
    from muster.problems import InputError, Problem
    from muster.service.client import Client

    if role not in ("user", "operator"):
        raise InputError(Problem("--role", "allowed: user or operator", found=role))
    if store is None:
        with Client.of_environment() as client:
            made = client.post("/v1/tokens", {"user": user, "role": role})
    else:
        made = _in_store(store, user, role)
    if as_json:
        _print(made)
    else:
        print(made["token"])
        typer.echo(f"This is token {made['id']}, of {user} ({role}); it cannot be shown again.", err=True)
        if made["warning"]:
            typer.echo(f"Note: {made['warning']}.", err=True)


@token.command("list", cls=Command)
def list_tokens(as_json: flags.Json = False) -> None:
    """List the tokens, without their secrets.

    Example: muster token list
    """
    from muster.cli.service_view import moment, plain_table, show
    from muster.service.client import Client

    with Client.of_environment() as client:
        found = client.get("/v1/tokens")
    if as_json:
        _print(found)
        return
    table = plain_table()
    for heading in ("token", "user", "role", "made", "revoked"):
        table.add_column(heading)
    for row in found["tokens"]:
        times = (moment(row["created"]), moment(row["revoked"]))
        table.add_row(str(row["id"]), row["user"], row["role"], *times)
    show(table)


@token.command(cls=Command)
def revoke(
    number: Annotated[int, typer.Argument(metavar="TOKEN", min=1, help="Number of the token in the list.")],
    as_json: flags.Json = False,
) -> None:
    """End a token's use at once.

    Example: muster token revoke 3
    """
    from muster.service.client import Client

    with Client.of_environment() as client:
        revoked = client.post(f"/v1/tokens/{number}/revoke")
    if as_json:
        _print(revoked)
    else:
        print(f"Token {number}, of {revoked['user']}, is revoked.")


def _in_store(url: str, user: str, role: str) -> dict[str, Any]:
    from muster.service.api.answers import new_token_of
    from muster.service.engines.registry import capabilities_of
    from muster.service.store import Store
    from muster.service.tokens import create_token

    opened = Store.open(url, make=False)
    try:
        made = create_token(
            opened, user, operator=role == "operator", engine=capabilities_of(opened.engine())
        )
    finally:
        opened.close()
    return new_token_of(made, opened.origin)


def _print(answer: Any) -> None:
    from muster.formatting import as_json_text

    print(as_json_text(answer), end="")
