"""FedDecomp's measure of how much of an image leaks (section 4.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Reading, all_of, only_if, search
from fedstat.theory.image import psnr
from theory_checks.feddecomp import PAPER

# --- DC-10 -----------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two images as (height, width, channels) with values in quarters of the range."""

    x: np.ndarray
    y: np.ndarray
    data_range: int


def _pairs(channels: tuple[int, ...], data_range: int) -> st.SearchStrategy[Pair]:
    def draw(shape: tuple[int, int, int]) -> st.SearchStrategy[Pair]:
        image = st.tuples(*[st.integers(0, 4)] * math.prod(shape)).map(
            lambda entries: np.array(entries).reshape(shape) * data_range / 4
        )
        return st.builds(Pair, image, image, st.just(data_range)).filter(lambda pair: bool((pair.x != pair.y).any()))

    return st.one_of(*[draw(shape) for shape in product((1, 2), (1, 2), channels)])


def _printed_psnr(pair: Pair) -> float:
    height, width, _ = pair.x.shape
    return -10 * math.log10(((pair.x - pair.y) ** 2).sum() / (height * width))


def _show(pair: Pair) -> str:
    shape = " by ".join(map(str, pair.x.shape))
    return f"{shape} images {pair.x.ravel().tolist()} and {pair.y.ravel().tolist()}, data range {pair.data_range}"


def _is_psnr(printed: Callable[[Pair], float], channels: tuple[int, ...], data_range: int) -> Evidence:
    return search(
        _pairs(channels, data_range),
        lambda pair: (printed(pair), psnr(pair.x, pair.y, data_range=pair.data_range)),
        relation="==",
        tolerance=1e-9,
        examples=100,
        show=_show,
    )


def _in_one_channel(printed: Callable[[Pair], float]) -> Evidence:
    return only_if("a single channel", _is_psnr(printed, (1,), 1), _is_psnr(printed, (1, 3), 1))


DC10 = Claim(
    id="DC-10",
    paper=PAPER,
    place="section 4.6",
    statement='op("PSNR")(x, x^*) = -10 log_10 (norm(x - x^*)_2^2 / (m n))',
    words="The printed formula is the peak signal-to-noise ratio.",
    readings=(
        Reading("values in [0, 1]", lambda: _in_one_channel(_printed_psnr)),
        Reading("values in [0, 255], in a single channel", lambda: _is_psnr(_printed_psnr, (1,), 255)),
    ),
    mutant=lambda: _is_psnr(lambda pair: _printed_psnr(pair) - 10 * math.log10(pair.x.shape[0]), (1,), 1),
    sensitivity="1e-9 decibels",
    assumptions="the mean squared error of the usual definition runs over all entries, channels included",
    flaw="The squared error is summed over the channels but divided by the number of pixels, and the range of the "
    "values is taken as one; colour images with values in [0, 1] come out 4.77 decibels too low, alike for all "
    "methods.",
    corrected="DC-10c",
)


def _corrected_psnr(channels: Callable[[int], float]) -> Evidence:
    """The mean runs over m n c entries, so the ratio is D^2 m n c / |x - x*|^2; the logarithm parts the factors."""

    def printed(pair: Pair) -> float:
        return _printed_psnr(pair) + channels(pair.x.shape[2]) + 20 * math.log10(pair.data_range)

    return all_of([_is_psnr(printed, (1, 2, 3), data_range) for data_range in (1, 255)])


DC10C = Claim(
    id="DC-10c",
    paper="fedstat",
    place="corrected statement of DC-10",
    statement='op("PSNR")(x, x^*) = -10 log_10 (norm(x - x^*)_2^2 / (m n)) + 10 log_10 c + 20 log_10 D',
    words="With c channels and data range D the printed formula needs 10 log c + 20 log D decibels more.",
    readings=(
        Reading("up to three channels, ranges 1 and 255", lambda: _corrected_psnr(lambda c: 10 * math.log10(c))),
    ),
    mutant=lambda: _corrected_psnr(lambda c: 0.0),
    sensitivity="1e-9 decibels",
)


def claims(results: Path) -> tuple[Claim, ...]:
    """Return the claims; they read no tables."""
    return (
        DC10,
        DC10C,
    )
