WORK_PER_INTERRUPTION: float
HORIZON_SECONDS: float

def repays(gain_per_second: float, cost_seconds: float, horizon_seconds: float = ...) -> bool: ...
