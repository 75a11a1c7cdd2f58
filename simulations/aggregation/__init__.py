"""Averaging coefficients and atoms apart on a toy: filter decomposition, Figure 1b."""
