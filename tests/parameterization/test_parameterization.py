"""Every form against its formula written out index by index, and the counts, ranks and starts the papers state."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedstat.parameterization import Atoms, Hadamard, LowRankSum, Rank1Sparse, hadamard_rank

DENSE, WIDE, CONV, POINT = (9, 10), (10, 9), (4, 6, 3, 3), (9, 8, 1, 1)
FORMS = [
    Rank1Sparse(DENSE),
    Rank1Sparse(WIDE, rank=3, reading="text"),
    Rank1Sparse(CONV, reading="text"),
    Rank1Sparse(CONV, rank=2),
    Rank1Sparse(POINT),
    LowRankSum(DENSE, 0.5, "text"),
    LowRankSum(WIDE, 0.4),
    LowRankSum(CONV, 0.6, "text"),
    LowRankSum(CONV, 0.6),
    LowRankSum(POINT, 0.6, "text"),
    Atoms(CONV, 9),
    Atoms(CONV, 9, basis="canonical"),
    Atoms(CONV, 2),
    Atoms((3, 2, 2, 2), 7),
    Hadamard((20, 24), 0.0),
    Hadamard((20, 24), 1.0, personal=True),
    Hadamard((20, 24), 0.0, tanh=True),
    Hadamard((8, 6, 3, 3), 0.0),
    Hadamard((8, 6, 3, 3), 0.5, personal=True),
    Hadamard((8, 6, 3, 3), 0.5, personal=True, tanh=True),
]
every_form = pytest.mark.parametrize("form", FORMS, ids=str)


def weight_of(form, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=form.shape))


def start(form, seed=0):
    return form.parts(weight_of(form, seed), np.random.default_rng(seed))


def scattered(form, seed=0):
    """Parts of the form's shapes with no entry at zero."""
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy(rng.normal(size=part.shape)) for name, part in start(form).items()}


def entry(form, parts, place):
    """One entry of the weight as the papers define it, in sums over scalars."""
    p = {name: part.numpy() for name, part in parts.items()}
    o, i, a, b = (*place, 0, 0)[:4]
    out, inputs, *kernel = form.shape
    k = kernel[0] if kernel else 1
    match form:
        case Rank1Sparse():
            row, column = (a * k + b, i * out + o) if kernel else (i, o)
            if kernel and form.reading == "code":
                row, column = divmod(((o * inputs + i) * k + a) * k + b, inputs * out)
            return sum(p["u"][row, g] * p["v"][g, column] for g in range(form.rank)) + p["mu"][row, column]
        case LowRankSum():
            row, column = i * k + a, o * k + b
            divisor = 1
            if form.reading == "code":
                row, column = divmod(((o * inputs + i) * k + a) * k + b, inputs * k)
                divisor = math.floor(form.ratio * (out if kernel else min(out, inputs)))
            return p["full"][place] + sum(p["b"][row, s] * p["a"][s, column] for s in range(form.rank)) / divisor
        case Atoms():
            return sum(p["alpha"][r, o, i] * p["atoms"][a, b, r] for r in range(form.atoms))
        case Hadamard():
            ranks = range(form.rank)
            w = [
                sum(p[f"t{n}"][q, s, a, b] * p[f"x{n}"][o, q] * p[f"y{n}"][i, s] for q in ranks for s in ranks)
                if kernel
                else sum(p[f"x{n}"][o, q] * p[f"y{n}"][i, q] for q in ranks)
                for n in (1, 2)
            ]
            first, second = map(math.tanh, w) if form.tanh else w
            return first * (second + form.personal)


@every_form
def test_weight_is_the_formula_at_every_index(form):
    parts = scattered(form)
    expected = np.array([entry(form, parts, place) for place in np.ndindex(form.shape)]).reshape(form.shape)
    np.testing.assert_allclose(form.compose(parts), expected, rtol=1e-11, atol=1e-11)


@every_form
def test_parts_take_the_weights_type_and_repeat_with_the_seed_alone(form):
    weight = weight_of(form).float().requires_grad_()
    state = torch.get_rng_state()
    torch.manual_seed(1)
    first = form.parts(weight, np.random.default_rng(3))
    torch.manual_seed(2)
    second = form.parts(weight, np.random.default_rng(3))
    torch.set_rng_state(state)
    for name, part in first.items():
        assert part.dtype == torch.float32
        assert not part.requires_grad
        assert torch.equal(part, second[name])
        assert part.data_ptr() != weight.data_ptr()


@every_form
def test_stacked_parts_compose_like_one_client_after_another(form):
    clients = [scattered(form, seed) for seed in range(3)]
    stacked = {name: torch.stack([parts[name] for parts in clients]) for name in clients[0]}
    together = torch.vmap(form.compose)(stacked)
    assert together.shape == (3, *form.shape)
    np.testing.assert_allclose(together, torch.stack([form.compose(parts) for parts in clients]), rtol=1e-12)


@pytest.mark.parametrize(
    "form",
    [
        Rank1Sparse((3, 2)),
        Rank1Sparse((2, 2, 2, 2), rank=2),
        LowRankSum((3, 2), 0.5),
        LowRankSum((2, 3, 2, 2), 0.5, "text"),
        Atoms((2, 2, 2, 2), 3),
        Hadamard((16, 16), 0.0, tanh=True),
        Hadamard((4, 4, 3, 3), 0.0, personal=True),
    ],
    ids=str,
)
def test_gradient_of_every_part_is_that_of_finite_differences(form):
    parts = scattered(form)
    leaves = [part.requires_grad_() for part in parts.values()]
    assert torch.autograd.gradcheck(
        lambda *values: form.compose(dict(zip(parts, values, strict=True))), leaves, fast_mode=True
    )


# --- Factorized-FL -----------------------------------------------------------------------------------------------


def test_thin_factors_have_the_papers_number_of_entries():
    u_and_v = [
        sum(start(Rank1Sparse((o, i, k, k)))[name].numel() for name in "uv") == k * k + i * o
        for o, i, k in product((1, 2, 5), (1, 3), (1, 3, 5))
    ]
    assert all(u_and_v)
    parts = start(Rank1Sparse((5, 7), rank=2))
    assert [parts[name].numel() for name in ("u", "v", "mu")] == [2 * 7, 2 * 5, 35]


@pytest.mark.parametrize("form", [f for f in FORMS if isinstance(f, Rank1Sparse)], ids=str)
def test_mu_alone_can_be_any_weight_exactly(form):
    weight = weight_of(form)
    parts = start(form)
    assert parts["mu"].any() == (form.reading == "code" and len(form.shape) == 2)
    assert torch.equal(form.compose(parts | {"u": torch.zeros_like(parts["u"]), "mu": form.matrix(weight)}), weight)


def test_thin_factors_are_xavier_uniform():
    form = Rank1Sparse((40, 50, 5, 5), rank=3)
    parts = start(form)
    for name, fans in (("u", 25 + 3), ("v", 3 + 2000)):
        bound = math.sqrt(6 / fans)
        assert parts[name].abs().max() <= bound
        standard_error = math.sqrt(2 / fans) * 2 * bound / math.sqrt(parts[name].numel())
        assert parts[name].square().mean() == pytest.approx(2 / fans, abs=5 * standard_error)


# --- FedDecomp -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(1, 100), st.booleans())
@example(100, 100, 1, 29, False)  # 0.29 * 100 < 29 in floating point
def test_low_rank_part_has_the_papers_rank(out, inputs, k, percent, conv):
    shape, k = ((out, inputs, k, k), k) if conv else ((out, inputs), 1)
    form = LowRankSum(shape, percent / 100, "text")
    assert form.rank == max(1, percent * min(inputs, out) * k // 100)
    parts = start(form)
    assert parts["a"].numel() + parts["b"].numel() == form.rank * k * (inputs + out)
    if conv:
        assert LowRankSum(shape, percent / 100).rank == max(1, percent * out // 100) * k


@pytest.mark.parametrize("form", [f for f in FORMS if isinstance(f, LowRankSum)], ids=str)
def test_low_rank_sum_starts_as_the_networks_weight(form):
    assert torch.equal(form.compose(start(form)), weight_of(form))


@pytest.mark.parametrize("shape", [DENSE, WIDE, CONV, (6, 2, 3, 3)])
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_low_rank_part_reaches_every_matrix_up_to_its_rank_and_none_beyond(shape, ratio):
    form = LowRankSum(shape, ratio, "text")
    out, inputs, *kernel = shape
    k = kernel[0] if kernel else 1
    target = weight_of(form).numpy()
    matrix = np.empty((inputs * k, out * k))
    for o, i, a, b in np.ndindex(out, inputs, k, k):
        matrix[i * k + a, o * k + b] = target[(o, i, a, b)[: len(shape)]]
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    best = {"a": right[: form.rank], "b": left[:, : form.rank] * values[: form.rank]}
    parts = {"full": np.zeros(shape)} | best
    reached = form.compose({name: torch.from_numpy(part) for name, part in parts.items()}).numpy()
    missed = math.sqrt(sum(values[form.rank :] ** 2))
    assert np.linalg.norm(reached - target) == pytest.approx(missed, abs=1e-12)
    assert (missed < 1e-12) == (ratio == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "share"),
    [
        (LowRankSum((6, 8), 0.5, "text"), 1),
        (LowRankSum((4, 3, 3, 3), 0.5, "text"), 1),
        (LowRankSum((6, 8), 0.5), 1 / (3 * 8 * 3)),  # three times inputs times rank
        (LowRankSum((4, 3, 3, 3), 0.5), 1 / (3 * 3 * 2)),  # rank over k, that is
    ],
    ids=str,
)
def test_first_step_of_the_low_rank_part_is_a_share_of_a_full_rank_step_in_expectation(form, share):
    shape, draws = form.shape, 4000
    direction = weight_of(form, seed=1)
    rng, moved = np.random.default_rng(0), []
    for _ in range(draws):
        parts = form.parts(torch.zeros(shape, dtype=torch.float64), rng)
        b = parts["b"].requires_grad_()
        step = torch.autograd.grad((form.compose(parts) * direction).sum(), b)[0]
        moved.append((form.compose(parts | {"b": step}) - parts["full"]).detach())
    moved = torch.stack(moved)
    z = (moved.mean(0) - share * direction) / (moved.std(0) / math.sqrt(draws))
    assert z.abs().max() < 5


# --- Filter decomposition --------------------------------------------------------------------------------------------


def test_canonical_atoms_start_as_the_networks_weight_and_coefficients_are_its_entries():
    form = Atoms(CONV, 9, basis="canonical")
    weight, parts = weight_of(form), start(form)
    assert torch.equal(form.compose(parts), weight)
    alpha = parts["alpha"].requires_grad_()
    gradient = torch.autograd.grad((form.compose(parts) * weight.sin()).sum(), alpha)[0]
    assert torch.equal(gradient.permute(1, 2, 0).reshape(CONV), weight.sin())


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 99))
def test_atoms_have_length_one_and_are_orthogonal_while_space_lasts(count, k, seed):
    parts = start(Atoms((2, 3, k, k), count), seed)
    assert sum(part.numel() for part in parts.values()) == count * (k * k + 2 * 3)
    gram = np.einsum("abr,abs->rs", parts["atoms"], parts["atoms"])
    np.testing.assert_allclose(np.diag(gram), 1, rtol=1e-12)
    if count <= k * k:
        np.testing.assert_allclose(gram, np.eye(count), atol=1e-12)


def mean_square(form, entries):
    """Mean square of the weight at the start, and its standard error; draws are independent, entries need not be."""
    rng, zero = np.random.default_rng(0), torch.zeros(form.shape, dtype=torch.float64)
    draws = max(2, entries // zero.numel())
    squares = torch.stack([form.compose(form.parts(zero, rng)).square().mean() for _ in range(draws)])
    return float(squares.mean()), float(squares.std()) / math.sqrt(draws)


@pytest.mark.parametrize(
    "form",
    [
        Atoms((8, 5, 3, 3), 9),
        Atoms((8, 5, 3, 3), 3),
        Atoms((8, 5, 3, 3), 12),
        Hadamard((24, 20), 0.5),
        Hadamard((24, 20), 0.5, personal=True),
        Hadamard((8, 6, 3, 3), 0.5),
        Hadamard((8, 6, 3, 3), 0.5, personal=True),
    ],
    ids=str,
)
def test_weight_starts_with_he_variance(form):
    he = 2 / math.prod(form.shape[1:])
    mean, error = mean_square(form, entries=400_000)
    assert abs(mean - he) < 5 * error
    assert error < he / 20


def test_uniform_orthonormal_atoms_give_every_entry_he_variance():
    squares, rng, zero = [], np.random.default_rng(0), torch.zeros(4, 4, 2, 2, dtype=torch.float64)
    form = Atoms((4, 4, 2, 2), 1)
    for _ in range(4000):
        squares.append(form.compose(form.parts(zero, rng)).square().mean((0, 1)))
    squares = torch.stack(squares)
    z = (squares.mean(0) - 2 / 16) / (squares.std(0) / math.sqrt(len(squares)))
    assert z.abs().max() < 5


# --- FedPara and pFedPara -------------------------------------------------------------------------------------------


@settings(max_examples=200)
@example(342, 438, None, 56)  # 0.56 * 75 > 42 in floating point
@given(st.integers(1, 80), st.integers(1, 80), st.sampled_from([None, 1, 2, 3, 5]), st.integers(0, 100))
def test_hadamard_rank_lies_between_the_smallest_full_rank_and_the_largest_that_saves(out, inputs, k, percent):
    weight = out * inputs * (k or 1) ** 2

    def entries(r):
        return 2 * r * (out + inputs + (r * k * k if k else 0))

    smallest = next(r for r in range(1, 100) if r * r >= max(out, inputs))
    largest = next(r for r in range(200) if entries(r + 1) > weight)
    shape = (out, inputs, k, k) if k else (out, inputs)
    rank = hadamard_rank(shape, percent / 100)
    if largest < smallest:
        assert rank is None
        with pytest.raises(ValueError, match="too small"):
            Hadamard(shape, percent / 100)
    else:
        gamma = Fraction(percent, 100)
        assert rank == math.ceil((1 - gamma) * smallest + gamma * largest)
        parts = start(Hadamard(shape, percent / 100))
        assert sum(part.numel() for part in parts.values()) == entries(rank) <= weight


@pytest.mark.parametrize("form", [Hadamard((40, 40), 0.0), Hadamard((10, 12, 3, 3), 0.0)], ids=str)
def test_hadamard_product_has_full_rank_at_gamma_zero_though_its_factors_do_not(form):
    """Rank r squared is just enough for the unfoldings along outputs and inputs, and one rank less is not."""
    parts = start(form)

    def rank(weight, axis=0):
        return np.linalg.matrix_rank(weight.movedim(axis, 0).reshape(form.shape[axis], -1))

    for axis in (0, 1):
        assert rank(form.compose(parts), axis) == form.shape[axis] <= form.rank**2
    fewer = {
        name: part[: form.rank - 1, : form.rank - 1] if name[0] == "t" else part[:, : form.rank - 1]
        for name, part in parts.items()
    }
    assert rank(form.compose(fewer)) == (form.rank - 1) ** 2 < min(form.shape[:2])
    ones = {name: torch.zeros_like(part) for name, part in parts.items()}
    for name, part in ones.items():
        (part[0, 0] if name[0] == "t" else part[:, 0]).fill_(1)
    w1 = form.compose(parts | {name: part for name, part in ones.items() if name[1] == "2"})
    assert rank(w1) == form.rank


@given(st.integers(1, 10_000), st.sampled_from([1, 3, 5, 7]), st.integers(0, 100))
def test_convolutions_of_one_input_channel_stay_plain(out, k, percent):
    """Of small rank all of their filters would be multiples of one, or of few."""
    assert hadamard_rank((out, 1, k, k), percent / 100) is None


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(20, 24), (8, 6, 3, 3)])
def test_personal_factor_starts_at_zero_and_its_first_step_is_a_full_rank_step_in_expectation(shape):
    form = Hadamard(shape, 0.5, personal=True)
    parts = start(form)
    alone = {name[:-1] + n: part for name, part in parts.items() for n in "12" if name[1] == "1"}
    assert torch.equal(form.compose(parts).square(), replace(form, personal=False).compose(alone))
    direction, rng, moved, draws = weight_of(form, seed=1), np.random.default_rng(0), [], 2000
    for _ in range(draws):
        parts = form.parts(direction, rng)
        # W1 = 1, so that what moves W is W2
        parts |= {name: torch.zeros_like(part) for name, part in parts.items() if name[1] == "1"}
        for name in (n for n in parts if n[1] == "1"):
            (parts[name][0, 0] if name[0] == "t" else parts[name][:, 0]).fill_(1)
        y2 = parts["y2"].requires_grad_()
        step = torch.autograd.grad((form.compose(parts) * direction).sum(), y2)[0]
        assert step.any()
        moved.append(form.compose(parts | {"y2": step}).detach() - 1)
    moved = torch.stack(moved)
    z = (moved.mean(0) - direction) / (moved.std(0) / math.sqrt(draws))
    assert z.abs().max() < 5


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rank1Sparse((3, 4), rank=0), "rank must be a whole number, at least 1, got 0"),
        (lambda: Rank1Sparse((3, 4), rank=4), "rank must .* got 4"),
        (lambda: Rank1Sparse((8, 8, 3, 3), rank=10), "rank must be at most 9"),
        (lambda: Rank1Sparse((8, 8), rank=1.5), "rank must be a whole number"),
        (lambda: Rank1Sparse((8, 8), reading="row"), "reading must .* got 'row'"),
        (lambda: Rank1Sparse((8,)), r"shape must .* got \(8,\)"),
        (lambda: LowRankSum((8, 8, 3, 5), 0.5), r"square filters.* got \(8, 8, 3, 5\)"),
        (lambda: LowRankSum((8, 0), 0.5), r"shape must .* got \(8, 0\)"),
        (lambda: LowRankSum((8, 8), 0), r"ratio must lie in \(0, 1\], got 0"),
        (lambda: LowRankSum((8, 8), 1.01), "ratio must .* got 1.01"),
        (lambda: LowRankSum((8, 8), math.nan), "ratio must .* got nan"),
        (lambda: LowRankSum((8, 8), 0.5, "paper"), "reading must .* got 'paper'"),
        (lambda: Atoms((8, 8), 3), r"only convolutions .* got \(8, 8\)"),
        (lambda: Atoms((8, 8, 3, 3), 0), "atoms must .* got 0"),
        (lambda: Atoms((8, 8, 3, 3), 2.0), "atoms must be a whole number"),
        (lambda: Atoms((8, 8, 3, 3), 8, basis="canonical"), r"atoms must be k\^2 = 9 .* got 8"),
        (lambda: Atoms((8, 8, 3, 3), 9, basis="fourier"), "basis must .* got 'fourier'"),
        (lambda: Hadamard((64, 64), -0.1), r"gamma must be a number in \[0, 1\], got -0.1"),
        (lambda: hadamard_rank((64, 64), 1.5), "gamma must .* got 1.5"),
        (
            lambda: Hadamard((64, 32, 3, 3), 0.5).parts(torch.zeros(32, 64, 3, 3), np.random.default_rng()),
            "weight must",
        ),
    ],
)
def test_bad_input_is_named_with_its_value_and_the_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()
