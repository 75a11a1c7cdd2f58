"""FedSplit's two-layer networks of finite width, trained from many starts at once on samples of equal clients.

Local steps follow the gradient of the sum over a client's samples, without 1/n, as Theorem 1's update does; G of them
together are one over the largest eigenvalue of ``H_s / C + H_p``, half the limit of stability for G = 1. The server
averages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedstat.ntk import extreme_eigenvalues, infinite_gram, personal_gram


class Sample(NamedTuple):
    """Unit inputs, (C, n, d), and labels, (C, n)."""

    x: np.ndarray
    y: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """Return the inputs of all clients, one by one."""
        return self.x.reshape(-1, self.x.shape[-1])

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the shared and the personal kernel of infinite width."""
        clients, n, _ = self.x.shape
        return infinite_gram(self.flat), personal_gram(self.flat, np.repeat(np.arange(clients), n))

    @property
    def round_step(self) -> float:
        """Return eta_l G."""
        shared, personal = self.limits
        return 1 / float(extreme_eigenvalues(shared / len(self.x) + personal)[1])


class Training(NamedTuple):
    """What is recorded of every start.

    Squared residuals over the first one, (starts, rounds + 1), and for both kernels the largest spectral distance of a
    Gram matrix, over all local steps, from its start and from its limit, (starts, 2).
    """

    squared: np.ndarray
    from_start: np.ndarray
    from_limit: np.ndarray


def train(
    sample: Sample,
    width: int,
    *,
    starts: int,
    rounds: int,
    local_steps: int,
    seed: int,
    zero_output: bool = False,
    watch: bool = True,
) -> Training:
    """Train networks of `width` shared units, and as many personal ones at each client, from random starts.

    A start of zero output has every unit twice, with opposite output weights.
    """
    clients, _, d = sample.x.shape
    rng = np.random.default_rng([seed, width])
    drawn = width // 2 if zero_output else width
    shared = rng.normal(size=(starts, 1, drawn, d))
    personal = rng.normal(size=(starts, clients, drawn, d))
    signs = rng.choice([-1.0, 1.0], size=(2, starts, 1, drawn))
    if zero_output:
        shared, personal = (np.concatenate([w, w], axis=2) for w in (shared, personal))
        signs = np.concatenate([signs, -signs], axis=3)
    step, columns = sample.round_step / local_steps, sample.x.swapaxes(1, 2)
    watched = _Watched(sample)
    squared = []
    for _ in range(rounds):
        begun = [shared.repeat(clients, axis=1), personal]
        now = [w.copy() for w in begun]
        for g in range(local_steps):
            before = [w @ columns for w in now]
            output = sum(
                np.einsum("scm,scmn->scn", np.broadcast_to(a, z.shape[:3]), np.maximum(z, 0))
                for a, z in zip(signs, before, strict=True)
            )
            residual = output / np.sqrt(width) - sample.y
            if g == 0:
                squared.append((residual**2).sum(axis=(1, 2)))
            if watch:
                watched.look(begun, [z >= 0 for z in before])
            for w, a, z in zip(now, signs, before, strict=True):
                w -= step / np.sqrt(width) * a[..., None] * (((z >= 0) * residual[:, :, None]) @ sample.x)
        shared, personal = now[0].mean(axis=1, keepdims=True), now[1]
    found = np.array(squared).T
    return Training(found / found[:, :1], np.array(watched.from_start).T, np.array(watched.from_limit).T)


class _Watched:
    """The largest distances so far of Definition 2's Gram matrices from their start and from their limit."""

    def __init__(self, sample: Sample) -> None:
        self.sample, self.limits = sample, sample.limits
        owner = np.repeat(np.arange(len(sample.x)), sample.x.shape[1])
        self.same = owner[:, None] == owner
        self.inner = sample.flat @ sample.flat.T
        self.first: list[np.ndarray] = []
        self.from_start, self.from_limit = [np.zeros(1)] * 2, [np.zeros(1)] * 2

    def look(self, begun: list[np.ndarray], active: list[np.ndarray]) -> None:
        """Record the matrices of a local step: rows by the round's first weights, columns by the local ones."""
        rows = self.sample.flat.T
        at_columns = [a.swapaxes(2, 3).reshape(len(a), -1, a.shape[2]) for a in active]  # starts, samples, units
        shared = (begun[0][:, 0] @ rows >= 0).swapaxes(1, 2)
        own = [(w @ x.T >= 0).swapaxes(1, 2) for w, x in zip(begun[1].swapaxes(0, 1), self.sample.x, strict=True)]
        at_rows = [shared, np.concatenate(own, axis=1)]
        grams = [
            self.inner * (a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)) / a.shape[2]
            for a, b in zip(at_rows, at_columns, strict=True)
        ]
        grams[1] = np.where(self.same, grams[1], 0.0)
        self.first = self.first or grams
        for k, (gram, limit) in enumerate(zip(grams, self.limits, strict=True)):
            for kept, origin in ((self.from_start, self.first[k]), (self.from_limit, limit)):
                kept[k] = np.maximum(kept[k], np.linalg.norm(gram - origin, 2, axis=(1, 2)))
