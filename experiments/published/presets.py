"""Presets with the names of schedules in the authors' programs."""

from muster.schedulers.presets import Preset

PRESETS = (
    *(
        Preset(
            f"synergy-published:{policy}{'-greedy' if allocation == 'greedy' else ''}",
            f"{order}+{allocation}",
            f"Synergy's simulator, {policy.upper()} with {allocation.partition('-')[0]}; give it --rules "
            "synergy-published.",
            settings,
        )
        for policy, order, settings in (
            ("fifo", "fifo", {}),
            ("srtf", "srtf-speed", {}),
            ("las", "las", {"listed": "true"}),
            ("drf", "drf-static", {}),
            ("tetris", "tetris", {"alignment": "0"}),
        )
        for allocation in ("tune-published", "greedy")
    ),
    Preset(
        "tiresias-dally",
        "las+proportional+skew-leases",
        "Tiresias as in the program of Dally's authors: leases, least service first, skewed models in one rack.",
    ),
    Preset(
        "gandiva-dally",
        "fifo+proportional+scatter",
        "Gandiva as in the program of Dally's authors: no turns, no packing, large gangs scattered.",
    ),
    *(
        Preset(f"tiresias-sim:{schedule}", parts, f"Tiresias' simulator, {what}.", settings)
        for schedule, parts, what, settings in (
            ("fifo", "fifo-strict+proportional+pack", "fifo by count", {}),
            (
                "fifo-yarn",
                "fifo-strict+proportional+yarn",
                "fifo on as few machines as possible",
                {},
            ),
            ("fjf", "fifo+proportional+pack", "first job first by count", {}),
            ("fjf-yarn", "fifo+proportional+yarn", "fjf on as few machines as possible", {}),
            ("sjf", "smallest+proportional+pack", "smallest gang first, preemptive", {}),
            ("shortest", "srtf+proportional+pack", "shortest remaining time first", {}),
            ("shortest-gpu", "srsf+proportional+pack", "shortest remaining GPU time first", {}),
            ("dlas", "2d-las+proportional+pack", "LAS in queues by seconds", {"service": "seconds"}),
            ("dlas-gpu", "2d-las-sim+proportional+pack", "LAS in queues by GPU-seconds", {}),
            (
                "dlas-gpu-2",
                "2d-las-sim+proportional+pack",
                "dlas-gpu with promotion",
                {"promote_knob": "2"},
            ),
            ("dlas-gpu-gittins", "2d-gittins-sim+proportional+pack", "Gittins index in each queue", {}),
            (
                "gittins",
                "gittins-sim+proportional+pack",
                "smallest Gittins index first, without queues",
                {"thresholds": ""},
            ),
        )
    ),
)
