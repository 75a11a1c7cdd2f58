"""Distances of images against hand values and an independent definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_squared_error

from fedstat.theory.image import psnr

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
        (lambda: psnr(np.zeros((2, 2)), np.zeros((2, 3))), r"y must have shape \(2, 2\) .* got shape \(2, 3\)"),
        (lambda: psnr(np.zeros((0, 2)), np.zeros((0, 2))), r"x .* not be empty, got shape \(0, 2\)"),
        (lambda: psnr(np.zeros(2), np.array([0.0, math.inf])), "y must be finite, but holds inf"),
        (lambda: psnr(np.zeros(2), np.ones(2), data_range=0.0), r"data_range must be a number in \(0, inf\), got 0.0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
