"""How fast Muster is: `make bench`, or `python -m benchmarks [NAME ...]` for some of the cases."""
