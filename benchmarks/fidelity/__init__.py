"""How well the simulator foretells what the daemon really does: `python -m benchmarks.fidelity`."""
