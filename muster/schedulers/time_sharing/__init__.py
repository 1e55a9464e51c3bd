"""Whole schedulers under which jobs share GPUs that cannot be divided: in turns, or packed (Gandiva)."""
