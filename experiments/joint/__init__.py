"""Schedulers side by side on the grounds of the published elastic and sensitivity-aware systems."""
