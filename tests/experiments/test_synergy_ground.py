"""The further settings of Synergy's ground are others than those that the ground had first."""

from __future__ import annotations

from experiments.joint.synergy import FURTHER, SETTINGS, Setting


def test_further_settings_share_nothing_with_the_first() -> None:
    assert len(set(FURTHER)) == 24
    assert len(set(SETTINGS)) == 32

    def values(settings: tuple[Setting, ...]) -> list[set[object]]:
        names = ("cpus", "memory_gb", "split")
        loads: set[object] = {(setting.load, setting.gangs) for setting in settings}
        return [{getattr(setting, name) for setting in settings} for name in names] + [loads]

    for mine, others in zip(values(FURTHER), values(SETTINGS), strict=True):
        assert not mine & others
