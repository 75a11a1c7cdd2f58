"""Figures 6 and 7 of the FedFac paper, with the generator as written."""
