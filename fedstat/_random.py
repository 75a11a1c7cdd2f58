"""Keyed randomness: every draw is a pure function of a seed, a purpose and a place.

A resumed run therefore needs no generator state, and two methods under one seed see the same clients,
initial weights, participants and batch orders however much randomness either of them consumes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

#: Seeds of runs are smaller: the integers of TOML and of pandas have 64 bits, one of them the sign.
SEEDS = 2**63
#: From how many streams on their seeds are mixed at once; of fewer it takes longer.
_MANY = 16


def stream(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """Return the generator that belongs to ``(seed, purpose, *place)``, such as ``(0, "batches", round, client)``."""
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}.")
    # the key goes into spawn_key, not into the entropy: (1,) and (1, 0) are different streams only there
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()), *place)))


def streams(seed: int, purpose: str, *place: int, last: Sequence[int]) -> Iterator[np.random.Generator]:
    """Return the generators of ``(seed, purpose, *place, k)`` for each k of `last`, the same as `stream` gives.

    The seeds of many are mixed at once, which is ten times as fast.
    """
    if len(last) < _MANY:
        return (stream(seed, purpose, *place, k) for k in last)
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}.")
    words = _words(seed, (zlib.crc32(purpose.encode()), *place), np.asarray(last, dtype=np.uint32))
    return (np.random.Generator(np.random.PCG64(_Mixed(one))) for one in words)  # type: ignore[arg-type]  # NumPy allows


def share_of(count: int, share: float) -> int:
    """Return how many of `count` a share is; halves go up, which Python rounds to even."""
    return int(np.floor(share * count + 0.5 + 1e-9))  # 0.29 * 50 is less than 14.5


def drawn(rng: np.random.Generator, count: int, share: float) -> np.ndarray:
    """Return sorted numbers below `count`, so large a share of them and at least one, drawn alike."""
    return np.sort(rng.choice(count, max(1, share_of(count, share)), replace=False))


class _Mixed(ISeedSequence):
    """A seed sequence whose words are known."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Return the words, as many as PCG64 takes."""
        return self.words


def _words(seed: int, key: Sequence[int], last: np.ndarray) -> np.ndarray:
    """Return the `generate_state(4, uint64)` of ``SeedSequence(seed, spawn_key=(*key, k))`` for each k of `last`."""
    # O'Neill's ``seed_seq`` alternatives in the form that NumPy promises to keep
    mask = 0xFFFFFFFF
    number = [seed >> shift & mask for shift in range(0, max(seed.bit_length(), 128), 32)]  # four words or more
    entropy = [np.full(len(last), word, np.uint32) for word in (*number, *key)] + [last]

    def hashing(factor: int, growth: int) -> Callable[[np.ndarray], np.ndarray]:
        def hashed(value: np.ndarray) -> np.ndarray:
            nonlocal factor
            value = value ^ np.uint32(factor)
            factor = factor * growth & mask
            value = value * np.uint32(factor)
            return value ^ value >> np.uint32(16)

        return hashed

    def mixed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        found: np.ndarray = x * np.uint32(0xCA01F9DD) - y * np.uint32(0x4973F715)
        return found ^ found >> np.uint32(16)

    hashed = hashing(0x43B0D7E5, 0x931E8875)
    pool = [hashed(word) for word in entropy[:4]]
    for source, target in permutations(range(4), 2):
        pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in entropy[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word))
    words = np.stack([*map(hashing(0x8B51F9DD, 0x58F38DED), pool * 2)], axis=1, dtype="<u4")
    return words.view("<u8").astype(np.uint64)
