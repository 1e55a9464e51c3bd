"""The migrations. A released one is never changed; the next one follows it."""
