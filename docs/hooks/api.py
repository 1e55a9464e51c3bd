"""The page of the HTTP API, from the OpenAPI description that the daemon serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from daemon import served
from tables import markdown_table

_METHODS = ("get", "post", "put", "patch", "delete")


def page() -> str:
    """The page in Markdown."""
    described = json.loads(served()["/v1/openapi.json"])
    parts = [
        "# HTTP API",
        "Everything that the commands of a running daemon do, a program can do by HTTP and JSON. This page is "
        "generated from the description that every daemon serves at `/v1/openapi.json`. Times are Unix seconds, "
        "amounts are GPUs, CPU cores, GB, GB/s and steps. [Run and operate jobs](../how-to/service.md) says who may "
        "do what.",
        "## Requests",
    ]
    for path, methods in described["paths"].items():
        for method in _METHODS:
            if method in methods:
                parts += _operation(method, path, methods[method])
    parts.append("## Objects")
    for name, schema in sorted(described["components"]["schemas"].items()):
        parts += _object(name, schema)
    return "\n\n".join(parts) + "\n"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> list[str]:
    """One request: what it does, its parameters, its body and its responses."""
    parts = [f"### `{method.upper()} {path}`", _text(operation.get("description"))]
    rows = [
        (
            f"`{parameter['name']}`",
            parameter["in"],
            _type(parameter["schema"]),
            _default(parameter["schema"]),
            _text(parameter.get("description")),
        )
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        parts.append(markdown_table(("Parameter", "In", "Type", "Default", "Meaning"), rows))
    if "requestBody" in operation:
        schemas = [_type(body["schema"]) for body in operation["requestBody"]["content"].values()]
        parts.append(f"Body: {', '.join(schemas)}")
    responses = [
        (
            status,
            _text(response.get("description")),
            ", ".join(_type(body.get("schema", {})) for body in response.get("content", {}).values()),
        )
        for status, response in sorted(operation["responses"].items())
    ]
    parts.append(markdown_table(("Status", "Meaning", "Body"), responses))
    return parts


def _object(name: str, schema: Mapping[str, Any]) -> list[str]:
    """One JSON object with its fields, or one list of allowed values."""
    parts = [f"### {name}", _text(schema.get("description"))]
    if "enum" in schema:
        return [*parts, "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."]
    needed = set(schema.get("required", ()))
    rows = [
        (
            f"`{field}`",
            _type(described),
            "yes" if field in needed else "no",
            _default(described),
            _text(described.get("description")),
        )
        for field, described in schema.get("properties", {}).items()
    ]
    return [*parts, markdown_table(("Field", "Type", "Always there", "Default", "Meaning"), rows)]


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a value; named objects are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return (
            f"object of {_type(schema['additionalProperties'])}"
            if schema.get("additionalProperties")
            else "object"
        )
    return str(schema.get("type", "any")) + _limits(schema)


def _limits(schema: Mapping[str, Any]) -> str:
    """The range of a number."""
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (
            ("minimum", ">="),
            ("exclusiveMinimum", ">"),
            ("maximum", "<="),
            ("exclusiveMaximum", "<"),
        )
        if key in schema
    ]
    return f" {', '.join(bounds)}" if bounds else ""


def _default(schema: Mapping[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""


def _text(description: str | None) -> str:
    return " ".join((description or "").split())
