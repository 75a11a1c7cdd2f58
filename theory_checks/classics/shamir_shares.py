"""Shamir's shares: the values of a polynomial modulo a prime whose value at 0 is the secret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod


def shares(polynomial: Sequence[int], users: Iterable[int], prime: int) -> dict[int, int]:
    """Return what users hold, the polynomial's values at their numbers; its first coefficient is the secret."""
    return {u: sum(a * u**power for power, a in enumerate(polynomial)) % prime for u in users}


def secret(held: dict[int, int], prime: int) -> int:
    """Return the value at 0 of the polynomial of least degree through the shares."""
    return sum(y * prod(v * pow(v - u, -1, prime) for v in held if v != u) for u, y in held.items()) % prime
