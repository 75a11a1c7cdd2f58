"""Keyed randomness: every draw is a pure function of a seed, a purpose and a place.

A resumed run therefore needs no generator state, and two methods under one seed see the same clients,
initial weights, participants and batch orders however much randomness either of them consumes.
"""

from __future__ import annotations

import zlib

import numpy as np

#: Seeds of runs are smaller: the integers of TOML and of pandas have 64 bits, one of them the sign.
SEEDS = 2**63


def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator that belongs to ``(seed, purpose, *place)``.

    Parameters
    ----------
    seed : int
        Master seed of a run, non-negative.
    purpose : str
        What the numbers are for, e.g. ``"batches"``.
    *place : int
        Where they are used, e.g. round and client.
    """
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}.")
    # the key goes into spawn_key, not into the entropy: (1,) and (1, 0) are different streams only there
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()), *place)))
