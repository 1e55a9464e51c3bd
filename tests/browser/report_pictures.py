"""Pictures of a report for the documentation: python -m tests.browser.report_pictures REPORT.html [FOLDER]."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser.driven import DARK, PHONE, WIDE, chromium

_PLACES = {"top": "#explore", "jobs": "#pair", "charts": "figure[data-chart=jct]", "nodes": "#by"}


def main(report: Path, folder: Path) -> None:
    """Take pictures of the first screen, the other parts, and the story of the job that gained most."""
    with chromium() as browser:
        for kind, how in (("wide", WIDE), ("phone", PHONE), ("dark", DARK)):
            page = browser.new_page(**how)
            page.goto(report.resolve().as_uri())
            page.locator("html[data-ready]").wait_for()
            for name, place in _PLACES.items():
                if name != "top":
                    page.locator(place).evaluate(
                        "place => scrollTo(0, place.getBoundingClientRect().top + scrollY - 130)"
                    )
                    page.wait_for_timeout(300)
                page.screenshot(path=folder / f"report-{name}-{kind}.png")
            page.locator("#extremes button").first.click()
            page.screenshot(path=folder / f"report-story-{kind}.png")
            print(f"wrote report-*-{kind}.png", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures"))
