"""Names the extra of the distribution that brings a package, and the command that installs it.

`muster.training` needs NumPy alone. Everything else comes with an extra of `pyproject.toml`.
"""

from __future__ import annotations

from importlib.util import find_spec

from muster.problems import InputError, Problem

DISTRIBUTION = "muster-scheduler"
SIMULATOR, CHARTS, SERVICE, POSTGRES, RAY, MCP = "simulator", "charts", "service", "postgres", "ray", "mcp"
PACKAGES = {
    SIMULATOR: ("highspy", "polars", "pydantic", "typer", "rich", "backports"),
    CHARTS: ("altair", "jinja2", "markupsafe", "vl_convert"),
    SERVICE: (
        "fastapi",
        "jinja2",
        "uvicorn",
        "sqlalchemy",
        "alembic",
        "prometheus_client",
        "structlog",
        "regex",
        "pynvml",
    ),
    POSTGRES: ("psycopg",),
    RAY: ("ray",),
    MCP: ("mcp",),
}
"""The importable packages of each extra, without those of the extras that it contains."""


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"python -m pip install '{DISTRIBUTION}[{extra}]'"


def extra_of(package: str | None) -> str | None:
    """The first extra that brings an importable package; None if no extra does."""
    return next((extra for extra, packages in PACKAGES.items() if package in packages), None)


def missing_package(error: Exception, *, of_service: bool) -> InputError | None:
    """The error of a command that lacks a package of an extra; None for all other errors.

    A command of the service asks for that extra at once, whichever package it missed first.
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    extra = extra_of(package)
    if extra is None:
        return None
    belongs = extra == SIMULATOR or package in PACKAGES[SERVICE]
    return _not_installed(package, SERVICE if of_service and belongs else extra)


def missing_extra(extra: str) -> InputError | None:
    """The error of an installation that lacks a package of the extra; None if it has all of them."""
    missing = next((package for package in PACKAGES[extra] if find_spec(package) is None), None)
    return None if missing is None else _not_installed(missing, extra)


def require(extra: str) -> None:
    """Raises InputError if a package of the extra is not installed."""
    missing = missing_extra(extra)
    if missing is not None:
        raise missing


def _not_installed(package: str, extra: str) -> InputError:
    what = f"needed here and not installed. Hint: {install_command(extra)}"
    return InputError(Problem(f"package {package}", what))
