"""What the FedDecomp study hands to its chapter."""

from __future__ import annotations


def numbers(tables, config):
    """Return nothing yet."""
    return {}


def findings(tables):
    """Return nothing yet."""
    return {}


def figures(tables):
    """Return nothing yet."""
    return {}
