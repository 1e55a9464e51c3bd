"""Which jobs are considered at all, and which before others whatever the order says: quotas, knapsack."""
