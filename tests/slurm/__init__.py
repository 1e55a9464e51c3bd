"""A real Slurm on this machine, for tests: its controller and its nodes listen on loopback only."""
