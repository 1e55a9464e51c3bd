"""How much CPU, memory and storage each job gets with its GPUs."""
