"""The names and symbols that readers meet: tables, figures, chapters and pages have them from here.

Methods are called as their papers call them, and training without a server is Local. The parameter of a Dirichlet
distribution has no letter but stands behind the word, as in "Dirichlet 0.1": its papers call it alpha, beta or pi, and
alpha and beta have other meanings here.
"""

from __future__ import annotations

import re

from fedstat import methods

#: What methods are called whose classes cannot be: by class.
METHODS = {name: label for name in methods.available() if (label := methods.find(name).label)}
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "kappa": "κ", "lambda": "λ", "mu": "μ", "sigma": "σ",
    "tau": "τ",
}  # fmt: skip

#: Networks by the words for them in configurations.
NETWORKS = {
    "alexnet": "AlexNet", "resnet8": "ResNet-8", "resnet9": "ResNet-9", "resnet18": "ResNet-18", "vgg16": "VGG-16",
    "sigmoid": "small, sigmoids", "small": "small", "small_cnn": "small", "three_conv": "three convolutions",
}  # fmt: skip


def readable(label: str) -> str:
    """Write a label as readers see it: methods by their names, Greek letters as such.

    Examples
    --------
    >>> readable("FactorizedFL alpha, code")
    'Factorized-FL α, code'
    """
    return re.sub(r"[A-Za-z]+", lambda found: METHODS.get(found[0], SYMBOLS.get(found[0], found[0])), label)
