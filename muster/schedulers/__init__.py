"""The brain: pure decisions, `decide(view, state) -> (plan, state)`. No clock, no I/O, no world.

`contract` says what a scheduler sees and answers, `parts` what it may be composed of, `composed` how;
`selection/`, `order/`, `allocation/`, `placement/` hold one small file a part, `presets` the names for
combinations, `registry` turns a name on the command line into a scheduler.
"""
