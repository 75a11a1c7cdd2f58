"""Sources of randomness: which seed each of them follows, so that one can vary while the others are held.

===================  ===============================================================================================
source               what follows it
===================  ===============================================================================================
``data``             the samples that a generator draws
``partition``        who holds which samples: the partition, test and validation samples, new clients
``initial weights``  the network, clients' own networks, the parts that a method composes weights of, and what a method
                     draws before the first round (``federation.rng``): a gate, a random split of units
``participants``     what the server draws in a round: who takes part, drops out or is slow, and what a method draws
                     there (``update.rng``); who attacks, and what attackers draw
``batches``          what clients draw: the order of samples in local training, warm-up and tuning, the noise of
                     dropout, the samples that a method keeps from training (``Method.held_out``), and what a random
                     compression of uploads draws
===================  ===============================================================================================

The noise of a mechanism of differential privacy follows none of them, but the seed itself, whatever varies: two
releases with the same noise would give away what it hides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedstat._random import stream, streams

#: All sources, in the order in which a run needs them.
SOURCES = ("data", "partition", "initial weights", "participants", "batches")
#: The source of every purpose that the engine draws for (see `fedstat._random.stream`).
_SOURCE_OF = {
    "noise": "noise",
    **dict.fromkeys(("initial weights", "client weights", "parts", "client parts", "method"), "initial weights"),
    **dict.fromkeys(("participants", "attendance", "server", "attackers", "attack"), "participants"),
    **dict.fromkeys(("held out", "compression"), "batches"),
    **{
        f"{noise}{warmup}{purpose}": "batches"
        for noise in ("", "noise of ")
        for warmup in ("", "warmup ")
        for purpose in ("batches", "tuning batches")
    },
}


@dataclass(frozen=True)
class Seeds:
    """The seed that each source of randomness follows in one replicate.

    Sources in `vary` follow the replicate's own `seed`, the others the run's `first` seed, if one is given.
    """

    seed: int
    first: int | None = None
    vary: tuple[str, ...] = SOURCES

    def of(self, source: str) -> int:
        """Return the seed of a source; noise always varies."""
        return self.seed if self.first is None or source in (*self.vary, "noise") else self.first

    def stream(self, purpose: str, *place: int) -> np.random.Generator:
        """Return the generator of a purpose at a place; see `fedstat._random.stream`."""
        return stream(self.of(_SOURCE_OF[purpose]), purpose, *place)

    def streams(self, purpose: str, *place: int, last: Sequence[int]) -> Iterator[np.random.Generator]:
        """Return the generators of a purpose at places that differ in their last number."""
        return streams(self.of(_SOURCE_OF[purpose]), purpose, *place, last=last)

    @classmethod
    def of_run(cls, config: Mapping[str, Any], seed: int) -> Seeds:
        """Return those of one replicate of a run that is described by `config`."""
        return cls(seed, int(config["seeds"][0]), tuple(config["vary"]))


def check_vary(vary: Iterable[str]) -> tuple[str, ...]:
    """Return the sources that are to vary, in the order of `SOURCES`; none, or an unknown one, is a ValueError."""
    chosen = [vary] if isinstance(vary, str) else list(vary)
    if not chosen or (unknown := [source for source in chosen if source not in SOURCES]):
        wrong = f"has no source {unknown[0]!r}" if chosen else "is empty, so that all seeds would be one run"
        raise ValueError(f"vary {wrong}; name some of {', '.join(map(repr, SOURCES))}.")
    return tuple(source for source in SOURCES if source in chosen)
