"""What there is: node types, racks, nodes, GPUs; and the ledger of what is free and which job holds what."""

from muster.cluster.description import MAX_GPUS_PER_NODE, Cluster, Link, Links, Node

__all__ = ["MAX_GPUS_PER_NODE", "Cluster", "Link", "Links", "Node"]
