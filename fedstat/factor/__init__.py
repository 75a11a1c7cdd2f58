"""Factor analysis of correlations: principal-axis factoring."""

from fedstat.factor.principal_axis import PrincipalAxis, number_of_factors

__all__ = ["PrincipalAxis", "number_of_factors"]
