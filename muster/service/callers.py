"""Who calls: on loopback the kernel knows, until the first token is made; from then on a token says it.

without tokens, on loopback   the account that owns the client's socket. Root and the daemon's own account are
                              operators; others are let in, as themselves, only by a daemon that is root
with tokens, or from afar     `Authorization: Bearer TOKEN`; nothing else counts
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from muster.problems import InputError, Problem
from muster.service.accounts import name_of
from muster.service.sockets import Address, owner, plain
from muster.service.store.rows import Caller
from muster.service.tokens import KnownTokens, hash_of


class UnknownCaller(Exception):
    """Nobody knows who calls, or he is not let in; says what is needed."""


@dataclass(frozen=True)
class Call:
    """What a request shows of its sender."""

    client: Address | None
    server: Address | None
    """The daemon's end of the same connection."""
    authorization: str | None
    host: str | None
    origin: str | None
    """Where the page is from on which a browser sends it."""
    forwarded: bool = False
    """A proxy says that it sends it for somebody else."""


def caller(call: Call, tokens: KnownTokens) -> Caller:
    """Who sends a request; UnknownCaller if nobody knows or he may not."""
    if tokens.needed:
        return _by_token(call, tokens)
    if call.client is None or call.server is None or not is_loopback(call.client[0]):
        raise UnknownCaller(
            "from another machine a token is needed; its operator makes one with muster token create"
        )
    _refuse_errands(call)
    return _by_socket(call.client, call.server)


def check_bind(host: str, *, needs_tokens: bool) -> None:
    """Refuses an address that others can reach as long as they need no tokens."""
    if host == "localhost" or is_loopback(host):
        return
    if not _is_address(host):
        what = "allowed: the number of an address of this machine, as 127.0.0.1, or localhost"
        raise InputError(Problem("--listen", what, found=host))
    if not needs_tokens:
        what = (
            "others could reach this address, and there are no tokens yet. Make one first: muster token create "
            "NAME --role operator. Tokens travel in the clear over http: rather leave the daemon on 127.0.0.1 and "
            "put a server before it that speaks TLS (caddy, nginx; docs/how-to/service.md)"
        )
        raise InputError(Problem("--listen", what, found=host))


def is_loopback(host: str) -> bool:
    """Whether only this machine has this address."""
    return _is_address(host) and plain(ip_address(host)).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _by_token(call: Call, tokens: KnownTokens) -> Caller:
    if not tokens.by_hash:
        raise UnknownCaller(
            "a token is needed, and there is none; whoever can write the store makes one: "
            "muster token create NAME --role operator --store URL"
        )
    scheme, _, token = (call.authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise UnknownCaller("a token is needed: set MUSTER_TOKEN, or send Authorization: Bearer TOKEN")
    row = tokens.by_hash.get(hash_of(token.strip()))
    if row is None:
        raise UnknownCaller("this token is unknown or was revoked")
    return Caller(row.user, row.operator)


def _refuse_errands(call: Call) -> None:
    """What comes from this machine may have been sent on for somebody elsewhere: by a proxy, or by a browser.

    A browser says which page asks (Origin), and under which name it reached us (Host): a page's own name that
    was made to point at this machine is not ours.
    """
    if call.forwarded:
        raise UnknownCaller(
            "this comes through a proxy, so its sender is not known; make tokens (muster token create)"
        )
    name = _host_name(call.host)
    if name != "localhost" and not is_loopback(name):
        raise UnknownCaller(f"this daemon is called 127.0.0.1 or localhost here, and not {name!r}")
    if call.origin is not None and call.origin.partition("://")[2] != call.host:
        raise UnknownCaller("pages from elsewhere may not use this daemon without a token")


def _host_name(host: str | None) -> str:
    """`Host` without its port; empty if it is none."""
    try:
        return urlsplit(f"//{host or ''}").hostname or ""
    except ValueError:
        return ""


def _by_socket(client: Address, server: Address) -> Caller:
    uid, own = owner(client, server), os.geteuid()
    if uid is None:
        raise UnknownCaller("the kernel does not say whose connection this is; use a token")
    if own not in (0, uid) and uid != 0:
        raise UnknownCaller(
            f"this daemon belongs to {_account(own)}; you need a token (muster token create, as {_account(own)})"
        )
    return Caller(_account(uid), operator=uid in (0, own))


_account = lru_cache(maxsize=1000)(name_of)
