"""Jobs, sizes and places chosen together."""
