"""MkDocs hook: adds the generated pages of the reference and prepares each page for Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import api
import commands
import metrics
import record
import results
import schedulers
import tables
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

PAGES = {
    "reference/commands.md": commands.page,
    "reference/schedulers.md": schedulers.page,
    "reference/record.md": record.page,
    "reference/results.md": results.page,
    "reference/api.md": api.page,
    "reference/metrics.md": metrics.page,
}
"""Generated pages and the functions that write them."""

_MARKS_OF_FENCE = re.compile(r"^(\s*(?:```|~~~)\w+) \{[^}\n]*\}$", re.MULTILINE)
"""Marks for the test that runs the blocks; `tests/docs` lists them."""

LOADED_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"' >]+)"""
)


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages."""
    for uri, page in PAGES.items():
        files.append(File.generated(config, uri, content=page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Puts tables in the place of links to data files; drops the marks of code blocks."""
    folder = Path(page.file.abs_src_path).parent if page.file.abs_src_path else Path()
    return _MARKS_OF_FENCE.sub(r"\1", tables.rendered(markdown, folder))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Fails where a page would load something from another host."""
    if loaded := LOADED_FROM_ELSEWHERE.findall(output):
        raise PluginError(f"{page.file.src_uri}: found {', '.join(loaded)}; allowed: files of the site")
    return output
