"""Decision snapshots: one decision's whole input as a file, which is decided again (`replay`)."""
