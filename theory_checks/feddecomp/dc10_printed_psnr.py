"""DC-10: the printed PSNR is too low for colour images.

DC-10c: what the printed PSNR lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, all_of, search
from fedstat.theory.image import psnr

DC10 = Claim(
    id="DC-10",
    place="section 4.6, second paragraph, fourth sentence",
    said_by="paper",
    words="The printed formula is the peak signal-to-noise ratio.",
    statement='op("PSNR")(x, x^*) = -10 log_10 (norm(x - x^*)_2^2 / (m n))',
    severity="misprint",
    assumptions="the mean squared error of the usual definition runs over all entries, channels included",
    sensitivity="a billionth of a decibel",
    flaw="The squared error is summed over the channels but divided by the number of pixels, and the range of the "
    "values is taken as one; colour images with values in [0, 1] come out 4.77 decibels too low, alike for all "
    "methods, so that no comparison rests on it.",
    corrected="DC-10c",
)


class Pair(NamedTuple):
    """Two images as (height, width, channels) with values in quarters of the range."""

    x: np.ndarray
    y: np.ndarray
    data_range: int

    def __str__(self) -> str:
        shape = " by ".join(map(str, self.x.shape))
        one, other = (f"({', '.join(f'{v:g}' for v in image.ravel())})" for image in (self.x, self.y))
        return f"{shape} images {one} and {other}, values from 0 to {self.data_range}"


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


def _is_psnr(
    printed: Callable[[Pair], float | dict[str, float]], channels: tuple[int, ...], data_range: int
) -> Evidence:
    return search(
        _pairs(channels, data_range),
        lambda pair: (printed(pair), psnr(pair.x, pair.y, data_range=pair.data_range)),
        relation="==",
        tolerance=1e-9,
        examples=100,
        names=("the formula's", "the ratio's"),
    )


@DC10.reading("colour images, as in the experiments, with values from 0 to 1")
def colour() -> Evidence:
    return _is_psnr(_printed_psnr, (3,), 1)


@DC10.condition("images of a single channel, with values from 0 to 1")
def grey() -> Evidence:
    return _is_psnr(_printed_psnr, (1,), 1)


DC10C = Claim(
    id="DC-10c",
    place="corrected statement of DC-10",
    said_by="fedstat",
    words="With c channels and data range D the printed formula needs 10 log c + 20 log D decibels more.",
    statement='op("PSNR")(x, x^*) = -10 log_10 (norm(x - x^*)_2^2 / (m n)) + 10 log_10 c + 20 log_10 D',
    severity="misprint",
    sensitivity="a billionth of a decibel",
)


@DC10C.reading("up to three channels, ranges 1 and 255")
def with_channels_and_range() -> Evidence:
    """The mean runs over m n c entries, so the ratio is D^2 m n c / |x - x*|^2; the logarithm parts the factors."""

    def corrected(pair: Pair) -> dict[str, float]:
        channels, data_range = 10 * math.log10(pair.x.shape[2]), 20 * math.log10(pair.data_range)
        return {"printed formula": _printed_psnr(pair), "channels": channels, "range": data_range}

    return all_of([_is_psnr(corrected, (1, 2, 3), data_range) for data_range in (1, 255)])
