"""Neural tangent kernels of the two-layer ReLU network, and their spectra."""

from fedstat.ntk.gram import finite_gram, finite_personal_gram, infinite_gram, personal_gram
from fedstat.ntk.spectrum import extreme_eigenvalues

__all__ = ["extreme_eigenvalues", "finite_gram", "finite_personal_gram", "infinite_gram", "personal_gram"]
