"""Who is considered at all, and who before whom whatever the order says: quotas, knapsack."""
