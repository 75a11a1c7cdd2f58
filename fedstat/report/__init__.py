"""Figures and PDF pages: data and pictures from Python, text and layout in Typst files."""

from fedstat.report.document import typeset
from fedstat.report.partition import who_holds_what

__all__ = ["typeset", "who_holds_what"]
