"""Making, listing and revoking access tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import DESCRIBED, OperatorHere, ServiceHere
from muster.service.tokens import UserName, create_token

log = structlog.get_logger()
router = APIRouter(
    prefix="/v1/tokens",
    tags=["tokens"],
    dependencies=[DESCRIBED],
    responses=may_answer(403),
)


class TokenRequest(BaseModel):
    """The user and the role of a new token."""

    model_config = ConfigDict(extra="forbid")

    user: UserName
    role: Literal["user", "operator"] = "user"


@router.get("", response_model=answers.Tokens)
def tokens(service: ServiceHere, _: OperatorHere) -> dict[str, Any]:
    """All tokens, without their texts, which are not kept."""
    store = service.store
    return {"tokens": [answers.token_of(row, store.origin) for row in store.tokens()]}


@router.post("", status_code=201, response_model=answers.NewToken, responses=may_answer(400, 403, 413))
def create(request: TokenRequest, service: ServiceHere, caller: OperatorHere) -> dict[str, Any]:
    """Make a token, by which a user is known over TCP."""
    operator = request.role == "operator"
    made = create_token(
        service.store, request.user, operator=operator, engine=service.status.engine_capabilities
    )
    service.tokens.changed()
    log.info("token made", by=caller.user, user=request.user, role=request.role, token=made.row.id)
    return answers.new_token_of(made, service.store.origin)


@router.post("/{token_id}/revoke", response_model=answers.Token, responses=may_answer(403, 404))
def revoke(
    token_id: Annotated[int, Path(ge=1, le=2**63 - 1)], service: ServiceHere, caller: OperatorHere
) -> dict[str, Any]:
    """End a token's use at once."""
    row = service.store.revoke(token_id)
    if row is None:
        raise Refused(404, f"there is no token {token_id}")
    service.tokens.changed()
    log.info("token revoked", by=caller.user, user=row.user, token=row.id)
    return answers.token_of(row, service.store.origin)
