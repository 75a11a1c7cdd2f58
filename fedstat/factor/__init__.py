"""Statistics of units: principal-axis factoring of their correlations, and agreement over clients."""

from fedstat.factor.agreement import intraclass_correlation
from fedstat.factor.principal_axis import PrincipalAxis, number_of_factors

__all__ = ["PrincipalAxis", "intraclass_correlation", "number_of_factors"]
