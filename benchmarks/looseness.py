"""How loose are the bounds? Worst cases of four theorems beside what they promise, and the step that is best by them.

``python -m benchmarks.looseness`` writes looseness.csv, one-round.csv, pull.csv and best-step.csv of docs/tables, their
tables in docs/how-loose.md and its figure; it takes a few minutes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables import DOCS, publish
from fedstat.claims import Functions, WorstCase, worst_case
from theory_checks.classics.cl02_decaying_steps_bound import over_all_functions
from theory_checks.classics.cl40_local_descent_on_convex_clients import averaged
from theory_checks.classics.cl93_one_round_of_fedprox import SETTINGS, one_round, shortfall
from theory_checks.classics.local_descent import last_average

INTERVALS = (1, 2, 3, 4)
HETEROGENEITY = (0.0, 0.1, 1.0)
STEPS = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.4])
PULLS = (1.2, 2, 3, 4, 5, 6, 8)
#: What solvers leave of a fall that is zero.
NOTHING = 1e-4
#: Rounds after which the best step is looked for.
ROUNDS = 3


def convex(local_steps: int, step: float, heterogeneity: float) -> float:
    """Two convex clients at distance one from the optimum, three rounds of local gradient descent, L = 1."""
    scale = 1 / max(heterogeneity, 1e-6)  # no heterogeneity at all would leave the solvers no inner point
    found = worst_case(
        averaged(step, local_steps, ROUNDS * local_steps),
        [Functions(smoothness=1)] * 2,
        measure=lambda run: run.gap,
        given=lambda run: [run.start, scale * run.heterogeneity],
    )
    return agreed(found)


def agreed(found: WorstCase) -> float:
    """Return the worst case; where the solvers do not agree there is none."""
    return found.value if found.agreed else float("nan")


def promised(local_steps: int, step: float, heterogeneity: float) -> float:
    """Return the bound of CL-40 there."""
    return 2 / (step * ROUNDS * local_steps) + 24 * step**2 * heterogeneity * local_steps**2


def strongly_convex(local_steps: int) -> float:
    """Two clients with L / mu = 2, the ratio to the bound of FD-45 in the step after the first round."""
    gamma, last = max(16, local_steps), local_steps + 2
    found = worst_case(
        last_average(1.0, gamma, local_steps, last),
        [Functions(convexity=1, smoothness=2)] * 2,
        measure=lambda run: run.distance,
        given=lambda run: [
            4 / (gamma + last) * (12 * run.excess + 8 * (local_steps - 1) ** 2 * run.largest_gradient),
            (gamma + 1) / (gamma + last) * run.start,
        ],
    )
    return agreed(found)


def ratios() -> pd.DataFrame:
    """Return the ratios of worst case and bound."""
    rows = []
    for local_steps in INTERVALS:
        row: dict[str, object] = {"local steps": local_steps}
        step = 1 / (4 * local_steps)
        for heterogeneity in HETEROGENEITY:
            worst = convex(local_steps, step, heterogeneity)
            row[f"CL-40, σ² = {heterogeneity:g}"] = worst / promised(local_steps, step, heterogeneity)
        row["CL-02"] = agreed(over_all_functions(2, 2, local_steps, 2 * local_steps).worst())
        row["FD-45"] = strongly_convex(local_steps)
        rows.append(row)
        print(row, flush=True)
    return pd.DataFrame(rows)


def fall(pull: float, dissimilarity: int, draws: int | None) -> tuple[float, float]:
    """Return what CL-93 promises of a round of FedProx and what it gains at least, in squared gradients over mu."""
    lacking = sum(shortfall(1 / pull, dissimilarity, draws).values())
    return 1 - lacking, 1 - lacking * agreed(one_round(pull, dissimilarity, draws).worst())


def decreases() -> pd.DataFrame:
    """Return the falls in the settings of CL-93's trial."""
    rows = []
    for pull, dissimilarity, draws in SETTINGS:
        said, least = fall(pull, dissimilarity, draws)
        row = {"μ / L": pull, "B": dissimilarity, "K": draws or "→ ∞", "promised": said, "worst case": least}
        rows.append(row | {"promised / worst case": said / least})
    return pd.DataFrame(rows)


def pulls() -> pd.DataFrame:
    """Return the falls over the pull, in squared gradients divided by L; a fall that is not positive is none."""
    rows = []
    for pull in PULLS:
        row: dict[str, object] = {"μ / L": pull}
        for dissimilarity in (1, 2):
            for name, value in zip(("promised", "worst case"), fall(pull, dissimilarity, None), strict=True):
                row[f"B = {dissimilarity}, {name}"] = "none" if value < NOTHING else value / pull
        rows.append(row)
        print(row, flush=True)
    return pd.DataFrame(rows)


def steps() -> pd.DataFrame:
    """Return the worst gap at each step size, for one and several local steps."""
    rows = [
        {"local steps": e, "step": step, "worst gap": convex(e, step, 1.0)}
        for e in (1, 2, 4)
        for step in STEPS / np.sqrt(e)
    ]
    return pd.DataFrame(rows)


def best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the best step beside the longest that the theorem allows."""
    rows = []
    for e, own in table.groupby("local steps"):
        found = own.loc[own["worst gap"].idxmin()]
        longest = 1 / (4 * int(e))
        rows.append(
            {
                "local steps": int(e),
                "best step": found["step"],
                "its worst gap": found["worst gap"],
                "prescribed": longest,
                "worst gap there": convex(int(e), longest, 1.0),
                "promised there": promised(int(e), longest, 1.0),
            }
        )
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame, curves: pd.DataFrame) -> None:
    """Draw the ratios over local steps, and the worst gap over the step size."""
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "fedstat", "font.size": 8}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.7), layout="constrained")
        for name, marker in zip(table.columns[1:], "os^vD", strict=True):
            left.plot(table["local steps"], table[name], marker=marker, markersize=4, label=name)
        left.axhline(1, color="0.6", linewidth=1)
        left.set(xlabel="local steps", ylabel="worst case / bound", ylim=(0, 1.05), xticks=INTERVALS)
        left.legend(frameon=False)
        for e, own in curves.dropna().groupby("local steps"):
            (line,) = right.plot(own["step"], own["worst gap"], label=f"{e} local step{'s' * (int(e) > 1)}")
            right.axvline(1 / (4 * int(e)), color=line.get_color(), linestyle=":", linewidth=1)
        right.set(xlabel="step size, L = 1", ylabel="worst gap, three rounds", yscale="log")
        right.legend(frameon=False)
        figure.savefig(DOCS / "how-loose.svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Solve, write and draw."""
    table, curves = ratios(), steps()
    publish("looseness", table, "how-loose.md")
    publish("one-round", decreases(), "how-loose.md")
    publish("pull", pulls(), "how-loose.md")
    publish("best-step", best(curves), "how-loose.md")
    draw(table, curves)


if __name__ == "__main__":
    main()
