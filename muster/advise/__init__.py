"""What a site's log says could be better: read-only, each answer with its evidence."""

from muster.advise.finding import FOUND, NOT_JUDGED, NOTHING, Finding, Saving
from muster.advise.findings import QUESTIONS, trials_of
from muster.advise.read import read_site
from muster.advise.site import TWIN, TWIN_JOBS, Site

__all__ = [
    "FOUND",
    "NOTHING",
    "NOT_JUDGED",
    "QUESTIONS",
    "TWIN",
    "TWIN_JOBS",
    "Finding",
    "Saving",
    "Site",
    "read_site",
    "trials_of",
]
