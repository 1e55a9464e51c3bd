"""The real world: a daemon that schedules real processes with the schedulers that the simulator runs.

`request` is what a user submits, `store` what must survive, `engines` where processes run, `controller` the loop
that asks the scheduler and carries out its plans, `api` the way in, `client` the way to it, `daemon` all of them
together.
"""
