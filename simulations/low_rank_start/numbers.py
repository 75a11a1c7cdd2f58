"""What the study of the low-rank start hands to its chapter."""

from __future__ import annotations


def findings(tables):
    return {}


def numbers(tables, config):
    return {}


def figures(tables):
    return {}
