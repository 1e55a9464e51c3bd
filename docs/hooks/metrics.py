"""The page of the metrics, from what `GET /metrics` serves."""

from __future__ import annotations

from daemon import served
from prometheus_client.parser import text_string_to_metric_families
from tables import markdown_table


def page() -> str:
    """The page in Markdown."""
    rows = []
    for family in text_string_to_metric_families(served()["/metrics"]):
        labels = sorted({label for sample in family.samples for label in sample.labels})
        name = family.samples[0].name if family.samples else family.name
        rows.append(
            (f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), family.documentation)
        )
    return "\n\n".join(
        [
            "# Metrics",
            "`GET /metrics` serves these figures to Prometheus; it needs no token and names no job and no user. This "
            "page is generated from what a daemon serves. The [dashboard for Grafana](../grafana-dashboard.json) "
            "draws them: import it and choose the Prometheus source.",
            markdown_table(("Metric", "Type", "Labels", "Meaning"), rows) + "\n",
        ]
    )
