"""Many runs at once: pieces of work that survive any interruption, sweeps over workloads, and what they show.

A sweep is all combinations of a file's axes (`grid`), each a `Cell`; `run_pieces` does what is not on the disk
yet, on all cores; `write_results` turns the summaries into means with intervals, tables, charts and a page.
"""
