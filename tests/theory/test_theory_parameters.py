"""Low-rank costs and image distances against hand values and independent definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_squared_error

from fedstat.theory.image import psnr
from fedstat.theory.low_rank import low_rank_overhead

sizes = st.integers(1, 40)


@pytest.mark.parametrize(
    ("layer", "rank", "parameters", "flops"),
    [
        ((256, 10, None, 0.6), 6, Fraction(6 * 266, 2560), 2 * 256 * 6 * 10),
        ((3, 64, 7, 0.6), 12, Fraction(12 * 67, 3 * 64 * 7), 2 * 21 * 12 * 448),  # 0.6 * 21 = 12.6
        ((64, 64, 3, 0.8), 153, Fraction(153 * 128, 64 * 64 * 3), 2 * 192 * 153 * 192),
        ((10, 10, None, 0.1 + 0.2), 3, Fraction(3, 5), 600),  # 0.30000000000000004
        ((100, 100, None, 0.29), 29, Fraction(29, 50), 580_000),  # 0.29 * 100 is 28.999999999999996
        ((3, 3, None, 1 / 3), 1, Fraction(2, 3), 18),
        ((4, 9, None, 0.01), 1, Fraction(13, 36), 72),  # no layer without a low-rank part
    ],
)
def test_low_rank_by_hand(layer, rank, parameters, flops):
    assert low_rank_overhead(*layer) == (rank, float(parameters), flops)


@given(sizes, sizes, st.none() | st.integers(1, 7), st.fractions(Fraction(1, 100), 1, max_denominator=100))
def test_low_rank_counts_the_entries_of_the_factors(i, o, kernel, ratio):
    k = kernel or 1
    rank, parameters, flops = low_rank_overhead(i, o, kernel, ratio)
    b, a = np.empty((i * k, rank)), np.empty((rank, o * k))
    assert parameters * (i * o * k * k) == a.size + b.size
    assert flops == 2 * b.size * a.shape[1]
    assert low_rank_overhead(i, o, kernel, float(ratio)) == (rank, float(parameters), flops)
    bound = ratio * (1 + Fraction(min(i, o), max(i, o)))
    assert rank == 1 or ratio / 2 < parameters <= bound <= 2 * ratio


def test_a_fraction_is_taken_as_it_is():
    """Its nearest neighbour with a denominator up to a million is 1/3, which would give one rank more."""
    ratio = Fraction(1, 3) - Fraction(1, 10**13)
    assert low_rank_overhead(3, 3, None, ratio).rank == 1
    assert low_rank_overhead(6, 6, None, ratio).rank == 1
    assert low_rank_overhead(6, 6, None, float(ratio)).rank == 2
    assert low_rank_overhead(np.int64(4), np.int32(9), np.int8(1), np.float32(0.5)) == (2, 26 / 36, 144)


images = st.sampled_from([(2, 3), (2, 3, 3), (1, 1, 1)]).flatmap(
    lambda shape: st.tuples(*[arrays(np.float64, shape, elements=st.integers(0, 255).map(float))] * 2)
)


@given(images, st.sampled_from([1.0, 255.0]))
def test_psnr_from_the_mean_squared_error(pair, data_range):
    x, y = pair
    error = mean_squared_error(x.ravel(), y.ravel())
    expected = 10 * math.log10(data_range**2 / error) if error else math.inf
    assert psnr(x, y, data_range=data_range) == pytest.approx(expected, abs=1e-9)
    assert psnr(x / 255, y / 255) == pytest.approx(psnr(x, y, data_range=255.0), abs=1e-9)
    assert psnr(x.astype(np.uint8), y.astype(np.uint8), data_range=255) == pytest.approx(
        psnr(x, y, data_range=255), abs=1e-9
    )  # bytes do not wrap


def test_psnr_by_hand():
    assert psnr(np.zeros((2, 2, 3)), np.full((2, 2, 3), 0.1)) == pytest.approx(20)
    assert psnr(np.zeros(1), np.array([1e-200])) == pytest.approx(4000)  # its square is zero in floating point


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: low_rank_overhead(0, 3, None, 0.5), "in_features must be a whole number, at least 1, got 0"),
        (lambda: low_rank_overhead(3, -1, None, 0.5), "out_features must be a whole number, at least 1, got -1"),
        (lambda: low_rank_overhead(3, 3, 0, 0.5), "kernel must be a whole number, at least 1, got 0"),
        (lambda: low_rank_overhead(3.5, 3, None, 0.5), "in_features must be a whole number, at least 1, got 3.5"),
        (lambda: low_rank_overhead(3, None, None, 0.5), "out_features must be a whole number, at least 1, got None"),
        (lambda: low_rank_overhead(3, 3, True, 0.5), "kernel must be a whole number, at least 1, got True"),
        (lambda: low_rank_overhead(3, 3, None, 0.0), r"ratio must be a number in \(0, 1\], got 0.0"),
        (lambda: low_rank_overhead(3, 3, None, 1.1), r"ratio must be a number in \(0, 1\], got 1.1"),
        (lambda: low_rank_overhead(3, 3, None, math.nan), r"ratio must be a number in \(0, 1\], got nan"),
        (lambda: psnr(np.zeros((2, 2)), np.zeros((2, 3))), r"y must have shape \(2, 2\) .* got shape \(2, 3\)"),
        (lambda: psnr(np.zeros((0, 2)), np.zeros((0, 2))), r"x .* not be empty, got shape \(0, 2\)"),
        (lambda: psnr(np.zeros(2), np.array([0.0, math.inf])), "y must be finite, but holds inf"),
        (lambda: psnr(np.zeros(2), np.ones(2), data_range=0.0), r"data_range must be a number in \(0, inf\), got 0.0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
