"""The language check of `make lint`: words that our text and names do not use."""
