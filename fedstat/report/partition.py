"""Draw a partition: how many samples of which class each client holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat.report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedstat.data import Partition

_FEW = 40  # number of clients or classes up to which discs and names fit
_WIDTH = 6.7  # inches: 170 mm


def who_holds_what(partition: Partition, y: np.ndarray, classes: Sequence[Any]) -> Figure:
    """Draw how many samples of each class (vertical) each client (horizontal) holds.

    They are those of ``partition.train``; what is held out of them later, for testing, is among them.

    Up to 40 clients and classes the areas of discs show the numbers; beyond, grey levels do, of which the largest 2%
    look alike.

    Parameters
    ----------
    partition : Partition
        Which client holds which samples.
    y : ndarray of int, shape (N,)
        Codes ``0..Q-1`` of the classes, before clients permute them.
    classes : sequence, length Q
        The class that each code means.

    Returns
    -------
    matplotlib.figure.Figure
        170 mm wide; save it with ``figure.savefig``.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.data import Partition
    >>> from fedstat.report import who_holds_what
    >>> y = np.array([0, 0, 0, 1, 1, 1])
    >>> figure = who_holds_what(Partition(train=(np.array([0, 1, 2]), np.array([3, 4, 5]))), y, ["cat", "dog"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()], figure.axes[0].get_xlabel()
    (['cat', 'dog'], 'client')
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    y = np.asarray(y)
    counts = np.stack([np.bincount(y[part], minlength=len(classes)) for part in partition], axis=1)
    q, k = counts.shape
    with style():
        figure, axes = plt.subplots(figsize=(_WIDTH, _height(q)), layout="constrained")
        if max(q, k) <= _FEW:
            _discs(axes, counts)
        else:
            top = np.quantile(counts[counts > 0], 0.98)  # a few large numbers would leave the rest white
            image = axes.imshow(counts, cmap="Greys", aspect="auto", interpolation="none", vmin=0, vmax=top)
            extend = "max" if counts.max() > top else "neither"
            figure.colorbar(image, ax=axes, label="samples", pad=0.01, extend=extend, ticks=MaxNLocator(integer=True))
        if k <= _FEW:
            names = [_short(name) for name in partition.names]
            axes.set_xticks(range(k), names, rotation=90 if sum(map(len, names)) > 60 else 0)
        if q <= _FEW:
            axes.set_yticks(range(q), [_short(str(name)) for name in classes])
        axes.set(xlabel="client", ylabel="class", xlim=(-0.5, k - 0.5), ylim=(-0.5, q - 0.5))
        plt.close(figure)
    return figure


def _height(classes: int) -> float:
    return float(np.clip(0.9 + 0.16 * classes, 1.8, 4.6))


def _discs(axes: Axes, counts: np.ndarray) -> None:
    """Draw a disc for each number, the largest as wide as its cell, with a legend of sizes."""
    q, k = counts.shape
    side = 72 * min(0.75 * _WIDTH / k, 0.75 * _height(q) / q, 0.25)
    rows, columns = np.nonzero(counts)
    axes.scatter(columns, rows, s=side**2 * counts[rows, columns] / counts.max(), color="0.25", linewidth=0)
    axes.grid(color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
    for count in sorted({counts.max() // part for part in (1, 4, 16)} - {0}, reverse=True):
        axes.scatter([], [], s=side**2 * count / counts.max(), color="0.25", linewidth=0, label=f"{count:,}")
    axes.legend(title="samples", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, labelspacing=1.2)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:8]}…{name[-11:]}"  # the end of a role's name tells it apart
