"""What the four papers prove or claim, as pure functions: rates, bounds, exact variances, counts."""

from fedstat.theory.convergence import convergence_factor, prescribed_step
from fedstat.theory.diagnosis import Diagnosis, diagnose
from fedstat.theory.generalisation import complexity_term
from fedstat.theory.image import psnr
from fedstat.theory.low_rank import LowRankOverhead, low_rank_overhead
from fedstat.theory.product_average import ProductAverage, product_average_moments, sampled_product_average
from fedstat.theory.strongly_convex import strongly_convex_bound

__all__ = [
    "Diagnosis",
    "LowRankOverhead",
    "ProductAverage",
    "complexity_term",
    "convergence_factor",
    "diagnose",
    "low_rank_overhead",
    "prescribed_step",
    "product_average_moments",
    "psnr",
    "sampled_product_average",
    "strongly_convex_bound",
]
