"""The page of the files that compare, capacity and advise write, with the columns from the code."""

from __future__ import annotations

from tables import markdown_table

from muster.report.advice import ADVICE_COLUMNS
from muster.report.comparison import COLUMNS

_COMPARISON = (
    ("`report.html`, `charts/`", "page with charts, and each chart as SVG and PNG (extra `charts`)"),
    ("`comparison.json`", "`runs`: folders of the simulated runs; `figures`: the rows below; `recorded`"),
    ("`comparison.csv`", "the same rows"),
    (
        "`comparison.md`",
        "the same figures, a column for each run, with four decimals; without those that no run has",
    ),
    ("`RUN/`", "record of the run and `summary.json`, which also has tenants and reasons of waiting"),
    ("`recorded/`", "the same of the history, where the log has starts"),
)
_CAPACITY = (
    ("`report.html`, `charts/`", "page with the curve, and the curve as SVG, PNG and CSV (extra `charts`)"),
    (
        "`capacity.json`",
        "`target`, `node`, `least_nodes`, `answer` in a sentence, and `curve`: the rows below",
    ),
    (
        "`capacity.csv`",
        "`nodes` (more than now), `gpus` (in all), `seconds` (the figure of the target: mean over the phases of the "
        "scheduler's clocks), `deviation_seconds` (standard deviation); jobs that are not in the figure: `left_out` "
        "(never fit), `unfinished`, `timed_out`, `cancelled`; `meets`",
    ),
    ("`capacity.md`", "the answer and the same rows"),
)
_ADVICE = (
    ("`report.html`", "page with all findings (extra `charts`)"),
    ("`1-idle-gpus.md` and so on", "each finding: evidence, largest cases, saving and what to do"),
    ("`advice.json`", "`notes` on the log and the cluster; `findings` with all that the pages have"),
    ("`advice.csv`, `advice.md`", "a row for each finding, with the columns below"),
)


def page() -> str:
    """The page in Markdown."""
    columns = [(f"`{column.name}`", f"`{column.path}`", column.meaning) for column in COLUMNS]
    advice = [(f"`{column.name}`", column.meaning) for column in ADVICE_COLUMNS]
    return (
        "\n\n".join(
            (
                "# Files of results",
                "Read this page to use results in a program or to paste them elsewhere. Columns that end in `_seconds` "
                "are in seconds; an empty cell or `null` is a figure that the run does not have.",
                "## muster compare",
                markdown_table(("File", "Content"), _COMPARISON),
                "A row for each run: the recorded history first, where the log has starts, then each scheduler on each "
                "cluster. `run` is its folder. The other columns, and where each stands in its `summary.json`:",
                markdown_table(("Column", "In summary.json", "Meaning"), columns),
                "## muster capacity",
                markdown_table(("File", "Content"), _CAPACITY),
                "## muster advise",
                markdown_table(("File", "Content"), _ADVICE),
                markdown_table(("Column", "Meaning"), advice),
            )
        )
        + "\n"
    )
