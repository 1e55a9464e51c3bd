"""Colours that any colour vision can distinguish, by what they are for, for light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "ink": "#1c2430",
    "quiet": "#566171",
    "line": "#e2e6eb",
    "surface": "#ffffff",
    "series-1": "#1b6ac9",
    "series-2": "#d9660b",
    "series-3": "#157a4f",
    "series-4": "#c2418f",
    "series-5": "#7a5c1e",
    "series-6": "#329cc9",
    "size-1": "#a8d0ec",
    "size-2": "#8fc2e5",
    "size-3": "#74b1dc",
    "size-4": "#589fd1",
    "size-5": "#3d8bc3",
    "size-6": "#2a76b0",
    "size-7": "#1b6099",
    "size-8": "#10497d",
    "size-9": "#0a2d57",
}
DARK: Mapping[str, str] = {
    "ink": "#e8ecf1",
    "quiet": "#a3adba",
    "line": "#2c333c",
    "surface": "#14171b",
    "series-1": "#4f9bf2",
    "series-2": "#f28a3a",
    "series-3": "#22b98a",
    "series-4": "#ef86c4",
    "series-5": "#c9a865",
    "series-6": "#7fdcf5",
    "size-1": "#1d4064",
    "size-2": "#27537f",
    "size-3": "#33679b",
    "size-4": "#427cb5",
    "size-5": "#5592cb",
    "size-6": "#6fa9dc",
    "size-7": "#8fc0e9",
    "size-8": "#b3d6f2",
    "size-9": "#d6eafb",
}
