"""Sessions of people in browsers: each has a secret of 256 random bits in a cookie, of which the store keeps the hash.

A session is opened by a token, or by a code that is good once and for a minute; it ends after twelve hours, by a
logout, and with the token that opened it or asked for the code. It opens no other session, so none is prolonged.
"""

from __future__ import annotations

import secrets
import threading

from muster.service.store import Store
from muster.service.store.rows import Caller, SessionRow
from muster.service.tokens import hash_of

SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 60.0
_BYTES = 32


def open_session(store: Store, caller: Caller) -> str:
    """The secret of a new session, which ends with the token of the caller."""
    secret = secrets.token_urlsafe(_BYTES)
    until = store.now() + SESSION_SECONDS
    store.open_session(SessionRow(hash_of(secret), caller.user, caller.operator, caller.token, until))
    return secret


def by_session(store: Store, secret: str) -> Caller | None:
    """The user whose session has this secret; None: there is none, or it is over."""
    session = store.session(hash_of(secret))
    return None if session is None else Caller(session.user, session.operator, session.token, in_session=True)


def close_session(store: Store, secret: str) -> None:
    """End the session of this secret, if there is one."""
    store.close_session(hash_of(secret))


class LoginCodes:
    """Codes that open one session each. They are kept in memory: a restart of the daemon ends them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._living: dict[str, tuple[Caller, float]] = {}

    def issue(self, caller: Caller) -> str:
        """A new code for this user."""
        code = secrets.token_urlsafe(_BYTES)
        now = self._store.now()
        with self._lock:
            self._living = {known: kept for known, kept in self._living.items() if kept[1] > now}
            self._living[hash_of(code)] = (caller, now + CODE_SECONDS)
        return code

    def redeem(self, code: str) -> Caller | None:
        """Whose this code is, once; None: it was never issued, is used or too old."""
        with self._lock:
            caller, until = self._living.pop(hash_of(code), (None, 0.0))
        return caller if until > self._store.now() else None
