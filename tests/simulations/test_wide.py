"""Networks of the designs beside autograd: the same residual after several rounds, and the gradients' kernel."""

import numpy as np
import pytest
import torch

from simulations.wide.designs import draw, train


def test_training_is_gradient_descent_on_the_summed_loss_with_the_server_averaging():
    """The shared part moves by the mean of the clients' steps, personal parts by their own."""
    width, seed = 8, 3
    sample = draw(2, 3, 4, 0.5, 1)
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, width // 2, 4))
    signs = np.sign(rng.normal(size=(3, width // 2)))
    w = torch.tensor(np.concatenate([half, half], axis=1), requires_grad=True)
    a = torch.tensor(np.concatenate([signs, -signs], axis=1) / np.sqrt(width))
    x, y = torch.tensor(sample.x), torch.tensor(sample.y)

    def outputs():
        own = [torch.relu(w[1 + c] @ row) @ a[1 + c] for c, row in zip(sample.owner, x, strict=True)]
        return torch.relu(x @ w[0].T) @ a[0] + torch.stack(own)

    def squared():
        return ((outputs() - y) ** 2).sum()

    start = squared().item()
    gradient = [torch.autograd.grad(f, w, retain_graph=True)[0] for f in outputs()]
    scale = torch.tensor([0.5, 1.0, 1.0], dtype=torch.float64).reshape(3, 1, 1)
    kernel = torch.stack([torch.stack([(g * scale * h).sum() for h in gradient]) for g in gradient])
    for _ in range(sample.rounds):
        (move,) = torch.autograd.grad(squared() / 2, w)
        with torch.no_grad():
            w -= sample.eta * scale * move
    rate = -np.log(squared().item() / start) / sample.rounds
    found = train(sample, width, seed)
    assert found["rate"] == pytest.approx(rate, rel=1e-9)
    assert found["kernel at the start"] == pytest.approx(torch.linalg.eigvalsh(kernel.detach())[0].item(), abs=1e-9)


def test_the_angle_sets_the_smallest_eigenvalue():
    lowest = [draw(3, 6, 8, angle, 0).lowest for angle in (1.0, 0.1, 0.01)]
    assert lowest[0] > 5 * lowest[1] > 25 * lowest[2]
    sample = draw(3, 6, 8, 0.1, 0)
    assert np.allclose(np.linalg.norm(sample.x, axis=1), 1)
    assert np.isclose(np.arccos(sample.x[0] @ sample.x[1]), 0.1)
