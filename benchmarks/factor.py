"""Time principal-axis factoring: ``python benchmarks/factor.py [noise] [weights] [layers] [ends] [--device cuda]``.

noise
    Correlations of noisy data, with the many factors that kappa = 0.85 asks for: time and full decompositions until
    no communality moves by 1e-6 any more, against plain iterations with full decompositions.
weights
    Power-law spectra as trained weights have them, from the rows to the communalities, against statsmodels at its
    defaults and when told how many steps leave an error of 1e-6; both are told the number of factors.
layers
    FedFac's analysis alone, for 10 clients' layers with the shapes of ResNet-18, part by part.
ends
    How often the solver ends elsewhere than a very long plain iteration from the same start.

Ratios are of interleaved turns within one run; ``OPENBLAS_NUM_THREADS=1`` gives both sides one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
from rich.progress import track

from fedstat._threads import one_thread
from fedstat.factor import IdentificationWarning, Moments, PrincipalAxis, contribution_rule, solver, units_as_columns
from fedstat.factor.correlation import squared_multiple_correlations


def seconds(call: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def spread(values: list[float]) -> str:
    """Format the median and the range."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def noisy(p: int, seed: int) -> np.ndarray:
    """Draw rows of max(4, p / 32) factors under much noise, four for each column."""
    rng = np.random.default_rng(seed)
    factors = max(4, p // 32)
    return rng.normal(size=(4 * p, factors)) @ (0.3 * rng.normal(size=(factors, p))) + rng.normal(size=(4 * p, p))


def weights(p: int, seed: int) -> np.ndarray:
    """Draw rows with the spectrum k^-1.6, log-normal scales of the columns and heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(p, p)))
    rows = rng.normal(size=(4 * p, p)) * np.arange(1, p + 1) ** -0.8
    noise = 0.05 * rng.standard_t(5, size=(4 * p, p))
    return np.sqrt(p) * (rows @ basis.T) * np.exp(0.5 * rng.normal(size=p)) + noise


def plain_steps(r: np.ndarray, m: int, steps: int) -> np.ndarray:
    """Iterate with numpy's full decomposition, as the definition says."""
    h = 1 - 1 / np.diag(np.linalg.inv(r))
    reduced = r.copy()
    for _ in range(steps):
        np.fill_diagonal(reduced, h)
        values, vectors = np.linalg.eigh(reduced)
        h = np.minimum((vectors[:, -m:] ** 2) @ np.maximum(values[-m:], 0), 1)
    return h


def noise(device: str | None) -> None:
    """Print the comparison with plain iterations."""
    print("noisy data, kappa = 0.85 (one BLAS thread below p = 1500)")
    for p in (64, 128, 256, 512, 1024):
        for seed in range(3 if p <= 512 else 1):
            r = Moments.of(noisy(p, seed)).correlation()
            m = contribution_rule(np.linalg.eigvalsh(r), 0.85).n_factors
            start = squared_multiple_correlations(r)
            with one_thread(p):
                end = solver.newton(r, start, m, 1.0, 1e-12, 1000)
                taken, decompositions, error = 0.0, 0, np.inf
                for steps in range(2, end.iterations + 1):
                    again = solver.newton(r, start, m, 1.0, 1e-12, steps)
                    error = float(np.abs(again.communalities - end.communalities).max())
                    if error < 1e-6:
                        decompositions = steps + 1
                        break
                taken = min(seconds(lambda: solver.newton(r, start, m, 1.0, 1e-12, steps)) for _ in range(3))  # noqa: B023
                few = 2000 if p <= 64 else max(10, 2000 * 64**2 // p**2 // 4)
                each = min(seconds(lambda: plain_steps(r, m, few)) for _ in range(3)) / few  # noqa: B023
                line = (
                    f"p = {p:4d}, m = {m:3d}, {len(np.flatnonzero(end.communalities >= 1)):2d} at the bound: "
                    f"{taken:.3f} s, {decompositions} decompositions to {error:.0e}; 2,000 plain steps would take "
                    f"{2000 * each:.2f} s ({2000 * each / taken:.0f} times as long"
                )
                if p <= 256:
                    left = float(np.abs(plain_steps(r, m, 2000) - end.communalities).max())
                    line += f" and leave an error of {left:.0e}"
                print(line + ")", flush=True)
            if device is not None:
                gpu = solver.newton(r, start, m, 1.0, 1e-10, 1000, device=device)
                times = [
                    seconds(lambda: solver.newton(r, start, m, 1.0, 1e-10, 1000, device=device))  # noqa: B023
                    for _ in range(3)
                ]
                difference = float(np.abs(gpu.communalities - end.communalities).max())
                print(f"          on {device}: {spread(times)} s, difference {difference:.0e}", flush=True)


def power_law(turns: int) -> None:
    """Print the comparison with statsmodels."""
    from statsmodels.multivariate.factor import Factor

    print("weights-like data, from the rows to the communalities, m given")
    for p in (256, 512, 1024, 2048):
        x = weights(p, 0)
        r = Moments.of(x).correlation()
        m = contribution_rule(np.linalg.eigvalsh(r), 0.85).n_factors
        exact = PrincipalAxis(m, tol=1e-13).fit_correlation(r).communalities_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            default = float(np.abs(Factor(corr=r, n_factor=m).fit().communality - exact).max())
            fewest = next(
                k
                for k in range(2, 50)
                if np.abs(Factor(corr=r, n_factor=m).fit(maxiter=k, tol=1e-12).communality - exact).max() < 1e-6
            )
            ours, theirs, short, parts = [], [], [], []
            for _ in range(turns):
                ours.append(seconds(lambda: PrincipalAxis(m).fit(x)))  # noqa: B023
                theirs.append(seconds(lambda: Factor(x, n_factor=m).fit()))  # noqa: B023
                short.append(seconds(lambda: Factor(x, n_factor=m).fit(maxiter=fewest, tol=1e-12)))  # noqa: B023
                parts.append(seconds(lambda: Moments.of(x).correlation()))  # noqa: B023
        fit = PrincipalAxis(m).fit(x)
        error = float(np.abs(fit.communalities_ - exact).max())
        print(
            f"p = {p:4d}, m = {m}: {spread(ours)} s (of it R {statistics.median(parts):.2f}), {fit.n_iter_} steps, "
            f"error {error:.0e}; statsmodels {spread(theirs)} s, error {default:.0e}, "
            f"ratio {spread([b / a for a, b in zip(ours, theirs, strict=True)])}; "
            f"told to stop after the {fewest} steps that leave 1e-6, "
            f"ratio {spread([b / a for a, b in zip(ours, short, strict=True)])}",
            flush=True,
        )


def layers(turns: int) -> None:
    """Print the parts of FedFac's analysis for layers of ResNet-18's shapes."""
    print("FedFac's analysis of one layer, 10 clients, kappa = 0.85")
    rng = np.random.default_rng(0)
    for units, incoming in ((64, 64 * 9), (128, 128 * 9), (256, 256 * 9), (512, 512 * 9)):
        common = rng.normal(size=(units, incoming)).astype(np.float32)
        basis = rng.normal(size=(units, 8)).astype(np.float32)
        for what, stacked in (
            ("changes of initial weights", rng.normal(size=(10, units, incoming)).astype(np.float32)),
            ("eight strong factors", basis @ rng.normal(size=(10, 8, incoming)).astype(np.float32) + common),
        ):
            columns = units_as_columns(stacked)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IdentificationWarning)
                fit = PrincipalAxis().fit(columns)
                whole = [seconds(lambda: PrincipalAxis().fit(columns)) for _ in range(turns)]  # noqa: B023
            formed = [seconds(lambda: Moments.of(columns).correlation()) for _ in range(turns)]  # noqa: B023
            print(
                f"{units} units x 10 clients x {incoming} weights, {what}: m = {fit.n_factors_}, {spread(whole)} s, of "
                f"it R {statistics.median(formed):.3f}; {fit.n_iter_} steps, "
                f"{'' if fit.identified_ else 'not '}identified",
                flush=True,
            )


def ends(problems: int) -> None:
    """Print how often the solver and the definition end at different points."""
    rng = np.random.default_rng(0)
    same = other = below = above = unsettled = 0
    for _ in track(range(problems), "plain iterations", transient=True):
        p = int(rng.integers(5, 25))
        most = int((2 * p + 1 - np.sqrt(8 * p + 1)) / 2)
        m = int(rng.integers(1, most + 1))
        rows = int(rng.integers(2 * p, 8 * p))
        x = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, p)) + rng.uniform(0.5, 4) * rng.normal(size=(rows, p))
        r = np.corrcoef(x, rowvar=False)
        start = squared_multiple_correlations(r)
        with one_thread():
            fast, slow = (solve(r, start, m, 1.0, 1e-10, 50_000) for solve in (solver.newton, solver.plain))
        if not (fast.converged and slow.converged and fast.identified and slow.identified):
            unsettled += 1
        elif np.abs(fast.communalities - slow.communalities).max() < 1e-6:
            same += 1
        else:
            other += 1
            below += fast.criterion < slow.criterion
            above += fast.criterion > slow.criterion
    print(
        f"{problems} random problems: {unsettled} without a settled answer (flat, or 50,000 plain steps too few), "
        f"{same} the same to 1e-6, {other} elsewhere ({below} at a lower psi, {above} at a higher one)"
    )


def main() -> None:
    """Print the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("noise", "weights", "layers", "ends")
    parser.add_argument("what", nargs="*", default=names, help=", ".join(names))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--device", default=None, help="also run noise there, for example on cuda")
    options = parser.parse_args()
    if "noise" in options.what:
        noise(options.device)
    if "weights" in options.what:
        power_law(options.turns)
    if "layers" in options.what:
        layers(options.turns)
    if "ends" in options.what:
        ends(options.problems)


if __name__ == "__main__":
    main()
