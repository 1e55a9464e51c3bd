"""The tests of what a log says of a site."""
