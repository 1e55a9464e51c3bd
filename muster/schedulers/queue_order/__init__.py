"""Who is served first: one file an order, most of them one expression."""
