"""The demonstration behind ``fedstat demo``: one table, one figure, a two-page PDF."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

import fedstat as fs
from fedstat._environment import environment
from fedstat._files import atomic_file, check_writable
from fedstat.data import Clients
from fedstat.inference import Comparison, interval, mean_interval, number, p_value, primary_summary
from fedstat.inference.reading.missing import complete_mean
from fedstat.report import typeset
from fedstat.report.figures import style, write_svg

TEMPLATE = Path(__file__).parent / "demo.typ"
CLIENTS, INPUTS, UNITS, ROUNDS = 30, 30, 40, 40


def draw(seed: int) -> Clients:
    """Draw the heterogeneous clients of one seed: half of the hidden units and of the covariates are personal."""
    return fs.data.relu_mixture(
        clients=CLIENTS, d=INPUTS, units=UNITS, samples=80, test=500, balance="median", seed=seed
    )


def run_demo(out: Path, seeds: int) -> tuple[Comparison, Path]:
    """Train, compare, and write ``demo.pdf``, ``comparison.csv`` and the run itself under `out`."""
    if out.is_dir() and any(out.iterdir()) and not (out / "demo.pdf").exists():
        raise ValueError(f"{out} holds something else than a demo; choose another folder with --out.")
    check_writable(str(out), out)
    methods = {
        "FedAvg": fs.FedAvg(),
        "Local": fs.Local(),
        "FedSplit, true split": fs.FedSplit(shared_units=lambda p: {"hidden": ~p.clients.truth.personal_units}),
        "FedFac, static": fs.FedFac(layers=["hidden"]),
        "FedFac, dynamic": fs.FedFac(layers=["hidden"], dynamic=True),
    }
    result = fs.federate(
        methods,
        fs.models.mlp(INPUTS, UNITS, 1),
        draw,
        fs.Training(lr=3e-3, optimizer="adam", batch_size=20, local_epochs=2),
        rounds=ROUNDS,
        participation=0.5,
        seed=range(seeds),
    )
    comparison = fs.compare(result, control="FedAvg")
    result.save(out / "run")
    with atomic_file(out / "comparison.csv") as path:
        comparison.to_csv(path)
    data = {
        "estimand": comparison.estimand,
        "conclusions": [*comparison.conclusions, comparison.generalises],
        "methods": list(methods),
        "size": {"clients": CLIENTS, "inputs": INPUTS, "units": UNITS, "rounds": ROUNDS, "seeds": seeds},
        "rows": _rows(comparison),
        "environment": environment(),
        "population": str(draw(0)),
    }
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "curves.svg"
        _curves(result, picture)
        typeset(TEMPLATE, data, {"curves.svg": picture}, out / "demo.pdf", day=date.today())
    return comparison, out / "demo.pdf"


def _rows(comparison: Comparison) -> list[list[str]]:
    rows, differences = [], comparison.differences.set_index("method")
    for label, summary in comparison.summary.iterrows():
        row = [str(label), f"{100 * summary['mean']:.1f}", f"{100 * summary['sd over seeds']:.1f}"]
        if gaps := comparison.gaps.get(str(label)):
            row = [f"{label}: {gaps}", *["–"] * 5]
        elif label in differences.index:
            d = differences.loc[label]
            gain = (100 * d[name] for name in ("difference", "low", "high"))
            row += [interval(gain, 1), number(d["correlation"], 2), p_value(d["p (adjusted)"])]
        else:
            row += ["control" if label == "FedAvg" else "–", "", ""]
        rows.append(row)
    return rows


def _curves(result: fs.Result, path: Path) -> None:
    """Draw the mean accuracy over clients and seeds per round, with 95% intervals over seeds at the end."""
    import matplotlib.pyplot as plt

    rows = result.history[result.history["metric"] == "accuracy"]
    per_seed = complete_mean(rows, ["method", "round", "seed"])
    looks = ("-", "--", ":", "-.", (0, (1, 3)))
    final = primary_summary(result.history, "accuracy")
    with style():
        figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        for i, (label, look) in enumerate(zip(final.columns, looks, strict=True)):
            curve = 100 * complete_mean(per_seed[label].reset_index(), ["round"])
            (line,) = axis.plot(curve.index, curve, ls=look, color="black", lw=1.1, label=label)
            if final[label].isna().any():  # values are missing, and the table says how many
                continue
            mean, low, high = (100 * v for v in mean_interval(final[label]))
            bar = axis.errorbar(
                ROUNDS + 1.5 + i, mean, [[mean - low], [high - mean]], fmt="o", color="black", ms=3, lw=0.8
            )
            bar[2][0].set_linestyle(line.get_linestyle())
        axis.set_xlabel("round (points: mean of the last ten rounds, 95% interval over seeds)")
        axis.set_ylabel("test accuracy (%)")
        figure.legend(loc="outside right center", frameon=False, fontsize=7.5)
        write_svg(figure, path)
        plt.close(figure)
