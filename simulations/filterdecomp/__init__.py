"""The figures and tables of the filter-decomposition paper on real images."""
