"""What the four papers prove or claim, as pure functions: rates, bounds, exact variances, counts."""

from fedstat.theory.communication import communication_fraction
from fedstat.theory.convergence import convergence_factor, linear_limit, prescribed_step
from fedstat.theory.diagnosis import Diagnosis, diagnose
from fedstat.theory.generalisation import complexity_term
from fedstat.theory.image import psnr
from fedstat.theory.low_rank import LowRankOverhead, low_rank_overhead
from fedstat.theory.product_average import ProductAverage, product_average_moments, sampled_product_average
from fedstat.theory.similarity import factorized_average_weights
from fedstat.theory.strongly_convex import strongly_convex_bound

__all__ = [
    "Diagnosis",
    "LowRankOverhead",
    "ProductAverage",
    "communication_fraction",
    "complexity_term",
    "convergence_factor",
    "diagnose",
    "factorized_average_weights",
    "linear_limit",
    "low_rank_overhead",
    "prescribed_step",
    "product_average_moments",
    "psnr",
    "sampled_product_average",
    "strongly_convex_bound",
]
