"""Pure decisions, `decide(snapshot, state) -> (decision, state)`: no clock, no I/O, no runtime.

`contract` says what a scheduler sees and answers, `parts` what it may be composed of, `composed` how;
`admission/`, `queue_order/`, `allocation/`, `placement/` hold one small file a part, `presets` the names for
combinations, `registry` turns a name on the command line into a scheduler.
"""
