"""Figures and PDF pages: data and pictures from Python, text and layout in Typst files."""

from fedstat.report.document import typeset

__all__ = ["typeset"]
