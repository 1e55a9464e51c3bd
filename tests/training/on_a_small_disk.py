"""Runs a job whose files may not grow beyond 20 kB."""

from __future__ import annotations

import resource
import runpy
import sys
from pathlib import Path

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
runpy.run_path(str(Path(__file__).with_name(sys.argv.pop(1))), run_name="__main__")
