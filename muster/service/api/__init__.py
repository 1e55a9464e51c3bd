"""The way in: HTTP under /v1, described at /v1/openapi.json; /healthz and /metrics beside it."""

from muster.service.api.app import create_app
from muster.service.api.serving import server

__all__ = ["create_app", "server"]
