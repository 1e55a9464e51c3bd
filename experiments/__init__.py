"""The papers' experiments, replicas of authors' programs and fits to data: in the repository, not in the wheel."""
