"""Jobs of a Slurm cluster: Muster decides when and where they run, Slurm runs them."""
