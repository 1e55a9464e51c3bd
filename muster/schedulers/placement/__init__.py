"""Where a job sits."""
