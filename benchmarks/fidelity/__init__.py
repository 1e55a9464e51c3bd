"""How well the simulator predicts what the daemon does: `python -m benchmarks.fidelity`."""
