"""A real Ray on this machine, for tests, in a network namespace of its own: Ray listens on all addresses."""
