"""What the study of the landscape hands to its chapter."""

from __future__ import annotations


def figures(tables):
    return {}
