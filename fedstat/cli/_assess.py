"""``fedstat assess``: what predictions are worth, by client and over all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedstat._files import atomic_file, check_not_read, write_text
from fedstat.cli._comparison import options_named


def assess(
    file: Annotated[
        Path, typer.Argument(exists=True, help="A table of predictions, CSV or parquet, or a run that keeps them.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="auc, brier, calibration_slope and others; repeatable.", show_default="the usual ones"),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(help="Method that the others are compared with.", show_default="the run's, FedAvg, or the first"),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Probability from which the event is named; adds sensitivity and specificity.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="Which of two classes is the event.", show_default="1, or the run's second")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    by_clients: Annotated[
        bool, typer.Option("--by-clients", help="Conclude on the mean over clients, not on all patients together.")
    ] = False,
    estimand: Annotated[str | None, typer.Option(help="Model to assess: personal, global, fine-tuned.")] = None,
    split: Annotated[str | None, typer.Option(help="Whose predictions.", show_default="test")] = None,
    new_clients: Annotated[
        bool, typer.Option("--new-clients", help="Assess the clients of a run that took no part in training.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the tables (.csv, .md or .txt), or a folder for them and the pictures."),
    ] = None,
) -> None:
    """Assess predictions at each hospital by name, over all patients, and against a control.

    The table has a row for each method, seed, client and patient: columns
    method, outcome (0 or 1) and probability, and where there are several,
    seed, client, name and sample, by which a patient is known. Other
    outcomes: p_<class> for each of several classes, value for numbers;
    time, event and risk for censored times. `fedstat compare` takes the
    same table where only training runs matter.

    Intervals are over patients and over training runs, and the last
    sentence says of whom they speak. What is undefined at a hospital, as
    with one event, is so for all methods, and the notes say why.

    Examples:

    \b
    fedstat assess runs/hospitals --control Local
    fedstat assess runs/hospitals --new-clients
    fedstat assess predictions.csv
    fedstat assess predictions.csv --metric auc --metric calibration_slope --control Local
    fedstat assess predictions.csv --threshold 0.1 --out assessment
    """
    from fedstat.inference import assess as assessed

    if out is not None and out.suffix.lower() not in ("", ".csv", ".md", ".txt"):
        raise ValueError(f"--out must end in .csv, .md or .txt, or name a folder, got {out}.")
    written = [] if out is None else [out] if out.suffix else [out / "assessment.csv", out / "assessment.md"]
    for path in written:
        check_not_read("--out", path, file)
    with options_named():
        found = assessed(
            file, metric or None, control=control, threshold=threshold, level=level,
            pooled="clients" if by_clients else "patients", estimand=estimand, split=split, new_clients=new_clients,
            event=event,
        )  # fmt: skip
    if out is None:
        typer.echo(str(found))
        return
    texts = {".csv": found.to_csv, ".md": found.to_markdown, ".txt": found.__str__}
    for path in written:
        write_text(path, texts[path.suffix.lower()]().rstrip("\n") + "\n")
    if not out.suffix and found.predictions.kind == "two classes":
        import matplotlib.pyplot as plt

        from fedstat.report.figures import style

        for picture in ("calibration", "roc", "decision"):
            path = out / f"{picture}.pdf"
            try:
                with style(), atomic_file(path) as temporary:
                    getattr(found, f"plot_{picture}")()
                    plt.savefig(temporary)
                    plt.close()
                written.append(path)
            except ValueError as error:
                typer.echo(f"note: {path} is not drawn: {error}", err=True)
    typer.echo("\n".join([*found.conclusions, "", *map(str, written)]))
