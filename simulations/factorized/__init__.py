"""Factorized-FL beside other methods, where labels or domains differ."""
