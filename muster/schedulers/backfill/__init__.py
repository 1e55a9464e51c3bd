"""Backfill: jobs start before others that wait for more, as far as reservations allow; any queue order can use it."""
