"""The page's own loss for censored times is that of an exponential model, which a Poisson regression fits as well."""

import numpy as np
import pytest
import statsmodels.api as sm
import torch

from docs.brca import exponential


def test_its_gradient_is_zero_at_the_fit_of_a_poisson_regression():
    rng = np.random.default_rng(0)
    x = sm.add_constant(rng.normal(size=(200, 2)))
    time, seen = rng.exponential(np.exp(-x @ [0.2, 0.5, -0.3])), rng.exponential(1.5, 200)
    died, time = time < seen, np.minimum(time, seen)
    fit = sm.GLM(died, x, family=sm.families.Poisson(), offset=np.log(time)).fit(tol=1e-12)
    beta = torch.tensor(fit.params, requires_grad=True)
    y = torch.tensor(np.where(died, time, -time))
    exponential((torch.tensor(x) @ beta)[:, None], y).sum().backward()
    assert beta.grad.numpy() == pytest.approx(np.zeros(3), abs=1e-7)
