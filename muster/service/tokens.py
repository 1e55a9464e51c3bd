"""Access tokens: 256 random bits, shown once. Kept is their SHA-256, from which they cannot be derived.

A slow hash with a salt is for passwords, which can be guessed; these cannot.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from muster.patterns import NAME
from muster.problems import InputError, Problem
from muster.service.accounts import cannot_run, together
from muster.service.engines import EngineCapabilities
from muster.service.store import Store
from muster.service.store.rows import TokenRow

_PREFIX = "muster_"
"""So that scanners for leaked secrets, and people, know what they have found."""
_BYTES = 32
_FRESH_SECONDS = 1.0

UserName = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
"""Of whose a token is."""
_USER_NAME: TypeAdapter[str] = TypeAdapter(UserName)


@dataclass(frozen=True)
class MadeToken:
    """One that was just made."""

    row: TokenRow
    text: str
    """Shown once."""
    warning: str = ""
    """What its maker has to know of it."""


def hash_of(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class LivingTokens:
    """The tokens in use, in memory: a request need not wait for the database.

    What another process changes in the store (`muster token create --store`) is seen a second later at most.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: Mapping[str, TokenRow] | None = None
        self._until = 0.0
        self._changes = 0

    def known(self) -> Mapping[str, TokenRow] | None:
        """By hash, as they were read lately; None: they have to be read."""
        return self._found if time.monotonic() < self._until else None

    def read(self) -> Mapping[str, TokenRow]:
        """By hash, as the store has them."""
        changes, until = self._changes, time.monotonic() + _FRESH_SECONDS
        found = {row.hash: row for row in self._store.tokens() if row.revoked is None}
        if changes == self._changes:  # Else this may be how they were before.
            self._found, self._until = found, until
        return found

    def changed(self) -> None:
        """There is another one, or one less."""
        self._changes += 1
        self._found = None


def create_token(store: Store, user: str, *, operator: bool, engine: EngineCapabilities | None) -> MadeToken:
    """A new token. `engine` runs the jobs; None: not known yet."""
    problems = _problems_of(user)
    missing = cannot_run(user, engine)
    if missing and not operator and not problems:
        problems.append(Problem("user", missing, found=user))
    if problems:
        raise InputError(*problems)
    text = _PREFIX + secrets.token_urlsafe(_BYTES)
    return MadeToken(
        store.add_token(user, operator, hash_of(text)), text, missing if operator else together(engine)
    )


def _problems_of(user: str) -> list[Problem]:
    try:
        _USER_NAME.validate_python(user)
    except ValidationError:
        what = "allowed: a name of 1 to 200 characters, none of them a control character"
        return [Problem("user", what, found=user)]
    return []
