"""Anybody's results: read, put side by side as scores, and refused where they cannot be compared."""
