"""How far Muster's rules of Slurm repeat logged runs of a real one: `python -m experiments.slurm`."""
