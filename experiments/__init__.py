"""The papers' experiments, replicas of authors' programs and fits to data: in the repository, not in the wheel."""

import os

# Before NumPy is loaded: matrices are small here, and BLAS's threads for them wait busily for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
