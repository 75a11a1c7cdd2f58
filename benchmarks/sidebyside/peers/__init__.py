"""One file for each peer."""
