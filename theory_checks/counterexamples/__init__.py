"""Counterexamples in whole numbers and fractions; each file needs nothing but Python: ``python -I FILE``."""
