"""What a run amounts to: figures, tables, charts and pages, from its record alone.

The same for simulated and real runs. `summarise` makes `summary.json`; `muster.report.page.write_report` and
`muster.report.terminal.comparison_table` show it, each imported from its own module because drawing is heavy.
"""

from muster.report.metrics import summarise
from muster.report.record import read_record, record_folders

__all__ = ["read_record", "record_folders", "summarise"]
