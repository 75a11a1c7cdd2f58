"""What the four papers prove or claim, as pure functions: rates, bounds, exact variances."""

from fedstat.theory.convergence import convergence_factor, prescribed_step
from fedstat.theory.diagnosis import Diagnosis, diagnose
from fedstat.theory.generalisation import complexity_term
from fedstat.theory.image import psnr
from fedstat.theory.product_average import ProductAverage, product_average_moments
from fedstat.theory.strongly_convex import strongly_convex_bound

__all__ = [
    "Diagnosis",
    "ProductAverage",
    "complexity_term",
    "convergence_factor",
    "diagnose",
    "prescribed_step",
    "product_average_moments",
    "psnr",
    "strongly_convex_bound",
]
