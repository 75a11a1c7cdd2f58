from .agreement import intraclass_correlation
from .bootstrap import BootstrapInterval, LoadingBootstrap, bootstrap_loadings
from .components import principal_components_loadings
from .diagnostics import SamplingAdequacy, Sphericity, bartlett, explained_variance, kmo, root_mean_square_residual
from .gaps import moments_with_gaps
from .likelihood import FitTests, fit_tests
from .moments import Moments
from .numbers import compare_numbers
from .ordinal import polychoric
from .principal_axis import ConstantColumnWarning, IdentificationWarning, PrincipalAxis
from .raters import IntraclassCorrelation, icc
from .retention import (
    Retention,
    contribution_rule,
    factor_parallel_analysis,
    kaiser_rule,
    ledermann_bound,
    minimum_average_partial,
    parallel_analysis,
    scree_plot,
)
from .rotation import Rotation, rotate
from .scales import reliability
from .scores import Scores, factor_scores
from .table import loading_table
from .targets import Matching, congruence, match_factors, target_rotation
from .units import units_as_columns

__all__ = [
    "BootstrapInterval",
    "ConstantColumnWarning",
    "FitTests",
    "IdentificationWarning",
    "IntraclassCorrelation",
    "LoadingBootstrap",
    "Matching",
    "Moments",
    "PrincipalAxis",
    "Retention",
    "Rotation",
    "SamplingAdequacy",
    "Scores",
    "Sphericity",
    "bartlett",
    "bootstrap_loadings",
    "compare_numbers",
    "congruence",
    "contribution_rule",
    "explained_variance",
    "factor_parallel_analysis",
    "factor_scores",
    "fit_tests",
    "icc",
    "intraclass_correlation",
    "kaiser_rule",
    "kmo",
    "ledermann_bound",
    "loading_table",
    "match_factors",
    "minimum_average_partial",
    "moments_with_gaps",
    "parallel_analysis",
    "polychoric",
    "principal_components_loadings",
    "reliability",
    "root_mean_square_residual",
    "rotate",
    "scree_plot",
    "target_rotation",
    "units_as_columns",
]
