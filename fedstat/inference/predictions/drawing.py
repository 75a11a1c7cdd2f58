"""Pictures of predictions, readable in black and white: calibration, ROC and decision curves with bands over patients.

A curve is the mean over training runs. Its band is pointwise, from a bootstrap that draws patients within each client,
the same for all methods and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from fedstat import _checks
from fedstat._random import stream
from fedstat.inference.comparing.drawing import LINES, new_axes, plain
from fedstat.inference.comparing.tables import percent, shortened
from fedstat.inference.predictions.table import Block, Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 101
#: Logits beyond which probabilities are drawn as if they were there.
_FAR = 12.0
#: From the weights of patients, shape (B, n), and the block to curves over a grid, shape (B, M, points).
_Curves = Callable[[np.ndarray, Block], np.ndarray]


def calibration(predictions: Predictions, level: float, ax: Axes | None, draws: int, seed: int) -> Axes:
    """Draw the share of events over the predicted probability, smoothed by a Gaussian kernel over logits.

    Each method's curve runs over the middle 95% of what it predicts. Copas (1983, Applied Statistics 32) smooths so.
    """
    _check(predictions)
    scores = np.concatenate([block.prediction.reshape(len(predictions.methods), -1) for block in predictions.blocks], 1)
    scores = _logits(scores)
    ends = np.quantile(scores, [0.025, 0.975], axis=1)
    grids = np.linspace(ends[0], ends[1], _POINTS, axis=1)
    patients = sum(len(block.client) for block in predictions.blocks)
    width = 1.06 * scores.std(axis=1) * patients ** (-1 / 5) + 1e-9

    def curves(weights: np.ndarray, block: Block) -> np.ndarray:
        made = []
        for of, grid, wide in zip(_logits(block.prediction), grids, width, strict=True):
            kernel = sum(np.exp(-(((one[:, None] - grid) / wide) ** 2) / 2) for one in of)
            with np.errstate(invalid="ignore", divide="ignore"):
                made.append((weights * block.outcome) @ kernel / (weights @ kernel))
        return np.stack(made, axis=1)

    ax = new_axes(ax, 4.4)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=1)
    _draw(ax, predictions, level, expit(grids), curves, draws, seed, "predicted probability", "share of events")
    most = min(1.0, 1.15 * float(expit(ends[1]).max()))
    top = 1.05 * max(float(np.nanmax(line.get_ydata())) for line in ax.lines[1:])
    ax.set(xlim=(0, most), ylim=(0, min(1.0, max(most, top))))
    return ax


def roc(predictions: Predictions, level: float, ax: Axes | None, draws: int, seed: int) -> Axes:
    """Draw sensitivity over one minus specificity, averaged over runs at equal specificity.

    Runs that test no patient of one class have no such curve.
    """
    _check(predictions)
    both = tuple(block for block in predictions.blocks if 0 < block.outcome.mean() < 1)
    if not both:
        raise ValueError("an ROC curve needs patients with and without the event under one seed, but there are none.")
    predictions = replace(predictions, blocks=both)
    grid = np.linspace(0, 1, _POINTS)

    def curves(weights: np.ndarray, block: Block) -> np.ndarray:
        made = np.zeros((len(weights), len(predictions.methods), _POINTS))
        for i, of in enumerate(block.prediction):
            for scores in of:
                order = np.argsort(-scores, kind="stable")
                last = np.append(np.diff(scores[order]) != 0, True)  # of patients with equal probabilities
                yes = np.cumsum(weights[:, order] * block.outcome[order], axis=1)[:, last]
                no = np.cumsum(weights[:, order] * (1 - block.outcome[order]), axis=1)[:, last]
                for b in range(len(weights)):
                    if yes[b, -1] and no[b, -1]:
                        x, y = np.append(0, no[b] / no[b, -1]), np.append(0, yes[b] / yes[b, -1])
                        made[b, i] += np.interp(grid, x, y)
                    else:  # a draw without events, or without others, has no curve
                        made[b, i] = np.nan
        return made / block.prediction.shape[1]

    ax = new_axes(ax, 4.4)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=1)
    _draw(ax, predictions, level, grid, curves, draws, seed, "1 − specificity", "sensitivity")
    ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    return ax


def decision(predictions: Predictions, level: float, ax: Axes | None, draws: int, seed: int) -> Axes:
    """Draw the net benefit of treating from a threshold on: true positives minus false ones at the threshold's odds.

    Per patient, as Vickers and Elkin (2006, Medical Decision Making 26) define it. Thresholds end at four times the
    share of events.
    """
    _check(predictions)
    share = float(np.concatenate([block.outcome for block in predictions.blocks]).mean())
    grid = np.linspace(0.0, min(0.99, 4 * share), _POINTS + 1)[1:]
    odds = grid / (1 - grid)

    def curves(weights: np.ndarray, block: Block) -> np.ndarray:
        made = []
        for of in block.prediction:
            treated = sum((one[:, None] >= grid).astype(float) for one in of) / len(of)
            yes, no = (weights * block.outcome) @ treated, (weights * (1 - block.outcome)) @ treated
            made.append((yes - no * odds) / weights.sum(axis=1, keepdims=True))
        return np.stack(made, axis=1)

    ax = new_axes(ax, 3.8)
    everyone = share - (1 - share) * odds
    ax.axhline(0, color="0.55", linewidth=0.8, zorder=1)
    ax.plot(grid, everyone, color="0.55", linewidth=0.8, zorder=1)
    words = "probability from which patients are treated"
    _draw(ax, predictions, level, grid, curves, draws, seed, words, "net benefit per patient")
    low = -0.35 * share
    ax.set(xlim=(0, grid[-1]), ylim=(low, 1.25 * share))
    leaves = np.flatnonzero(everyone > low)[-1]
    for name, where in {"treat none": (grid[-1], 0.0), "treat all": (grid[leaves], low)}.items():
        ax.annotate(name, where, xytext=(3, 3), textcoords="offset points", fontsize="small", color="0.35")
    return ax


def _check(predictions: Predictions) -> None:
    """Refuse predictions that have no curves, before anything is drawn."""
    if predictions.kind != "two classes":
        raise ValueError(f"pictures are of probabilities of two classes; these predictions are of {predictions.kind}.")
    if len(predictions.methods) > len(LINES):
        raise ValueError(f"a picture holds {len(LINES)} methods at most, got {len(predictions.methods)}; assess fewer.")
    tested, events = (sum(of(block.outcome) for block in predictions.blocks) for of in (len, np.sum))
    if not 0 < events < tested:
        raise ValueError(f"a picture needs patients with and without the event, got {events} events of {tested}.")


def _logits(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return logit(p).clip(-_FAR, _FAR)


def _draw(
    ax: Axes, predictions: Predictions, level: float, grids: np.ndarray, curves: _Curves, draws: int, seed: int,
    across: str, up: str,
) -> None:  # fmt: skip
    """Draw each method's curve with its band, over one grid or one for each method."""
    draws = _checks.whole("draws", draws, 50)
    grids = np.broadcast_to(grids, (len(predictions.methods), grids.shape[-1]))
    made = np.zeros((draws + 1, *grids.shape))
    for i, block in enumerate(predictions.blocks):
        made += curves(_weights(block, draws, seed, i), block) / len(predictions.blocks)
    tested = predictions.again / (1 + predictions.again)
    wider = np.sqrt(1 + (len(predictions.blocks) - 1) * tested)  # runs share patients, which are drawn for each here
    low, high = made[0] + wider * (np.nanquantile(made[1:], [(1 - level) / 2, (1 + level) / 2], axis=0) - made[0])
    names = [plain(name) for name in shortened(predictions.methods, 24).values()]
    for i, (name, line) in enumerate(zip(names, LINES, strict=False)):
        ax.fill_between(grids[i], low[i], high[i], color="0.5", alpha=0.15, linewidth=0, zorder=0)
        for limit in (low[i], high[i]):
            ax.plot(grids[i], limit, color="0.4", linestyle=line, linewidth=0.4, zorder=2)
        ax.plot(grids[i], made[0, i], color="black", linestyle=line, linewidth=1.2, zorder=3, label=name)
    runs = sum(block.prediction.shape[1] for block in predictions.blocks)
    mean = f", mean over {runs} runs" if runs > 1 else ""
    ax.set_xlabel(f"{across}\n{percent(level)} bands at each point, over patients{mean}")
    ax.set_ylabel(up)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize="small", handlelength=3.2)


def _weights(block: Block, draws: int, seed: int, place: int) -> np.ndarray:
    """Return how often each draw has each patient, shape (1 + draws, n): as they are, then drawn within clients."""
    rng, weights = stream(seed, "patients of a picture", place), np.ones((draws + 1, len(block.client)))
    for client in np.unique(block.client):
        own = np.flatnonzero(block.client == client)
        weights[1:, own] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size=draws)
    return weights
