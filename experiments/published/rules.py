"""The rules of published simulators."""

from experiments.published.blocks import blocks_of
from experiments.published.synergy_speeds import with_published_speeds
from muster.simulation.rules import Rules

SYNERGY_PUBLISHED = Rules(
    "synergy-published",
    "As the Synergy authors' simulator: whole iterations a round, completion at the round's end, every job "
    "competes again each round, a job that has not run for 1000 hours goes first, speeds are all or nothing.",
    whole_iterations=True,
    round_seconds=300.0,
    restart_cost_seconds=0.0,
    speed_law=with_published_speeds,
    settings={"preemptive": "true", "promote_after_seconds": "3600000", "promote_for_good": "true"},
)

DALLY_PUBLISHED = Rules(
    "dally-published",
    "As the program of Dally's authors without its leak: work and leases end with a block of 1000 samples a GPU, job "
    "groups cut work, GPUs are offered when jobs arrive and a second for each GPU of a job after it stopped (at once "
    "if it gave up its lease early), places are tried in the order of its hash tables, links count as in its backend.",
    restart_cost_seconds=0.0,
    offers=True,
    network="astra",
    blocks=blocks_of,
    settings_of_leases={"fit": "published", "bids": "with-offers", "forgets": "published"},
)
