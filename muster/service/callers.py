"""Who sends a request: over the Unix socket the kernel names the account, over TCP a token names the user.

Unix socket   the account at the other end. Root and the daemon's own account are operators. A daemon of root admits
              every other account as itself; any other daemon admits no other account
TCP           `Authorization: Bearer TOKEN`, or the cookie of a session; nothing else counts
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from muster.service.accounts import name_of, operators
from muster.service.store.rows import Caller, TokenRow
from muster.service.tokens import hash_of


class UnknownCaller(Exception):
    """The sender of a request is unknown or not admitted; the message says what is needed."""


def by_account(uid: int) -> Caller:
    """The account at the other end of the Unix socket; UnknownCaller if this daemon does not admit it."""
    own = os.geteuid()
    if own not in (0, uid) and uid != 0:
        raise UnknownCaller(
            f"this daemon belongs to {_account(own)}; you need a token (muster token create, as {_account(own)})"
        )
    return Caller(_account(uid), operator=uid in operators())


def by_token(authorization: str | None, tokens: Mapping[str, TokenRow]) -> Caller:
    """The user of the token in this header; UnknownCaller unless it is one of `tokens`, which are by hash."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise UnknownCaller(
            "a token is needed: set MUSTER_TOKEN, or send Authorization: Bearer TOKEN; muster token create, on the "
            "daemon's machine, makes one"
        )
    row = token_row(token.strip(), tokens)
    return Caller(row.user, row.operator, row.id)


def token_row(token: str, tokens: Mapping[str, TokenRow]) -> TokenRow:
    """The token of this text; UnknownCaller unless it is one of `tokens`, which are by hash."""
    row = tokens.get(hash_of(token))
    if row is None:
        raise UnknownCaller("this token is unknown or was revoked")
    return row


_account = lru_cache(maxsize=1000)(name_of)
