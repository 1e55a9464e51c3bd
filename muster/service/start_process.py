"""Answers a question about starts in a process of its own: reads it from standard input, writes JSON, and ends.

So a simulation takes no time of the interpreter in which the controller decides.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import astuple

from muster.problems import InputError
from muster.service.start_simulations import StartQuestion

_NICENESS = 10
"""Decisions go first."""


def main() -> None:
    """Print the starts and the ends by job, and the draws, with each shape, or of the queue; or why there are none."""
    os.nice(_NICENESS)
    question: StartQuestion = pickle.load(sys.stdin.buffer)
    try:
        found = [
            ({job: astuple(one) for job, one in queue.starts.items()}, dict(queue.ends), queue.draws)
            for queue in question.answer()
        ]
    except InputError as error:
        # Its message may name any job.
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
