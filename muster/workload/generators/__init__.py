"""Traces made: seeded workloads after a paper's or a real cluster's statistics, one file a kind."""
