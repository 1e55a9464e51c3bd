"""Drops compiled kernels that are older than the code they were compiled from.

Numba recompiles a function when its own file changes, but not when a function that it calls changes. A cache is
stale if its source file, or any module of the package that this file imports directly or indirectly, is newer.
"""

from __future__ import annotations

import ast
from pathlib import Path


def drop_stale_kernels(package: Path) -> None:
    """Delete the cache files under `package` that are older than a source file they depend on."""
    caches = list(package.rglob("*.nb[ic]"))
    if not caches:
        return
    sources = {_module_name(path, package): path for path in package.rglob("*.py")}
    changed = {name: path.stat().st_mtime for name, path in sources.items()}
    if max(changed.values()) < min(cache.stat().st_mtime for cache in caches):
        return
    newest = _newest_dependency(sources, changed)
    for cache in caches:
        source = cache.parent.parent / f"{cache.name.partition('.')[0]}.py"
        if cache.stat().st_mtime < newest.get(_module_name(source, package), float("inf")):
            cache.unlink(missing_ok=True)


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _newest_dependency(sources: dict[str, Path], changed: dict[str, float]) -> dict[str, float]:
    """Modification time of the newest file among each module and everything that it imports."""
    imports = {name: _imports(path, sources) for name, path in sources.items()}
    newest = dict(changed)
    settled = False
    while not settled:
        settled = True
        for name, imported in imports.items():
            latest = max((newest[other] for other in imported), default=0.0)
            if latest > newest[name]:
                newest[name], settled = latest, False
    return newest


def _imports(path: Path, sources: dict[str, Path]) -> set[str]:
    """The package's modules that a file imports, by `import a.b` or `from a.b import c`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found & sources.keys()
