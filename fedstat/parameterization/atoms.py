"""Filter decomposition: filters as linear combinations of a few atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat._checks import check_fields
from fedstat.parameterization.form import Params, check_shape, check_weight, gaussian


@dataclass(frozen=True)
class Atoms:
    """A convolution's weight ``W[o, i, a, b] = sum_r alpha[r, o, i] D[a, b, r]``.

    Parts are the coefficients ``alpha`` (atoms, out, in) and the atoms ``atoms`` (k, k, atoms), D in the formula.

    Attributes
    ----------
    shape : tuple of int
        (out, in, k, k).
    atoms : int
        Number of atoms; k^2 of them span all filters.
    basis : {"orthonormal", "canonical"}
        How the parts start. "orthonormal": atoms are random orthonormal vectors of R^(k^2), uniform up to sign, or
        independent Gaussian vectors scaled to length one if there are more than k^2, and coefficients are Gaussian
        with variance ``2 / (atoms * in)``. For any atoms, the variances of a filter's k^2 entries then average
        He's ``2 / (in k^2)``, and for k^2 orthonormal atoms each equals it. "canonical": the k^2 atoms that are one
        in one place and zero elsewhere, and the coefficients for which W is the network's own weight, exactly.

    Raises
    ------
    ValueError
        If the shape is not that of a convolution, `atoms` is no whole number of at least 1 (in the canonical basis: not
        k^2), or the basis is unknown.

    References
    ----------
    "Overcome data heterogeneity in federated learning with filter decomposition", section 4; the
    initial values are our choice.

    Examples
    --------
    The canonical start is the network's own weight:

    >>> import numpy as np
    >>> import torch
    >>> from fedstat.parameterization import Atoms
    >>> form = Atoms((8, 1, 3, 3), atoms=9, basis="canonical")
    >>> weight = torch.randn(8, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    >>> parts = form.parts(weight, np.random.default_rng(0))
    >>> {name: tuple(part.shape) for name, part in parts.items()}
    {'alpha': (9, 8, 1), 'atoms': (3, 3, 9)}
    >>> torch.equal(form.compose(parts), weight)
    True
    """

    shape: tuple[int, ...]
    atoms: int
    basis: Literal["orthonormal", "canonical"] = "orthonormal"

    def __post_init__(self) -> None:
        check_shape(self.shape)
        if len(self.shape) != 4:
            raise ValueError(
                f"shape must be (out, in, k, k): only convolutions have filters, got {self.shape}; leave it plain."
            )
        check_fields(self, atoms=1, basis=("orthonormal", "canonical"))
        if self.basis == "canonical" and self.atoms != self.shape[2] ** 2:
            raise ValueError(f"atoms must be k^2 = {self.shape[2] ** 2} in the canonical basis, got {self.atoms}.")

    def parts(self, weight: Tensor, rng: np.random.Generator) -> Params:
        """Return the initial coefficients and atoms, as `basis` says."""
        check_weight(weight, self.shape)
        out, inputs, k, _ = self.shape
        if self.basis == "canonical":
            alpha, atoms = weight.detach().permute(2, 3, 0, 1).reshape(k * k, out, inputs).clone(), np.eye(k * k)
        else:
            std = (2 / (self.atoms * inputs)) ** 0.5
            alpha, atoms = gaussian(rng, (self.atoms, out, inputs), std, weight), _unit_vectors(rng, k * k, self.atoms)
        return {"alpha": alpha, "atoms": torch.from_numpy(atoms.reshape(k, k, self.atoms)).to(weight)}

    def compose(self, parts: Params) -> Tensor:
        """Return the filters."""
        return torch.einsum("roi,abr->oiab", parts["alpha"], parts["atoms"])


def _unit_vectors(rng: np.random.Generator, dimension: int, count: int) -> np.ndarray:
    """Draw columns of length one, orthogonal as far as their number allows."""
    normal = rng.standard_normal((dimension, count))
    if count > dimension:
        return normal / np.linalg.norm(normal, axis=0)
    return np.linalg.qr(normal)[0]
