"""The patterns that checked texts have, and what each of them allows, in plain English."""

from __future__ import annotations

NAME = r"^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x1f\x7f-\x9f\s][^\x00-\x1f\x7f-\x9f]*$"
TEXT = r"^[^\x00]*$"
FOLDER = r"^/[^\x00]*$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
CONSTRAINT = r"^((gpu_type|label)=\S+)?$"
WORD = r"\S"

ALLOWED = {
    NAME: "text without control characters that is not only spaces",
    TEXT: "text without null characters",
    FOLDER: "an absolute path, which starts with / and has no null characters",
    VARIABLE: "letters, digits and _, of which the first is no digit",
    CONSTRAINT: "gpu_type=NAME or label=NAME (several: NAME|NAME), without spaces",
    WORD: "text that is not only spaces",
}
"""By pattern, for error messages: `allowed: text without control characters`."""
