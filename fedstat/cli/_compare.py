"""``fedstat compare``: compare methods from anybody's results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedstat._files import atomic_file, check_not_read, write_text
from fedstat.cli._comparison import asked, comparing

_PRINTED = "A table of a paper"
_FORMATS = {"": "text", ".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv"}


@comparing
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(help="Run folders, tables, or results of PFLlib, FL-bench, Flower, FLamby or a logger."),
    ],
    how: dict[str, Any],
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, markdown, latex or csv.", show_default="text, or as --out ends"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the table, ending in .md, .tex, .csv or .txt.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a forest plot: .pdf, .svg or .png.")] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", "--seeds", min=1, help="Runs behind each mean.", rich_help_panel=_PRINTED)
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            help="What stands beside a mean: sd over runs, se of the mean, ci (half of a 95% interval), or none.",
            rich_help_panel=_PRINTED,
        ),
    ] = None,
    methods_in: Annotated[
        str | None,
        typer.Option(help="Where the methods are: rows or columns.", show_default="rows", rich_help_panel=_PRINTED),
    ] = None,
    smaller: Annotated[
        bool, typer.Option("--smaller", help="Smaller values are better, in tables of papers in all columns without ↑.")
    ] = False,
    number: Annotated[
        int | None, typer.Option("--table", min=1, help="Which table of the file.", rich_help_panel=_PRINTED)
    ] = None,
) -> None:
    """Compare methods, paired on seeds, and say what may be concluded.

    Results may come from fedstat or from any other program: four columns,
    method, seed, client and accuracy, are enough. Intervals hold together for
    all comparisons. Runs on other data, or that end after other rounds, are
    refused. A method that ran later and alone, under the same seeds, is
    compared by naming both folders.

    Of a paper's table (.tex, .md or .html, a .csv with the columns method,
    mean and sd, or any with --spread) it says which bold faces stand: means
    and deviations of unpaired runs are all it has.
    Written to a .tex, the table has all in bold that may be the best.

    Examples:

    \b
    fedstat compare runs/digits --control FedAvg --margin 0.01
    fedstat compare runs/digits --control FedPer --control FedAvg
    fedstat compare runs/ours theirs.csv --all-pairs
    fedstat compare mine.csv --method algo --seed run --value acc --metric accuracy
    fedstat compare table.tex --runs 3 --spread sd --out honest.tex
    """
    from fedstat.inference.printed.table import is_printed

    check_not_read("--out", out, *files)
    if spread is not None or runs is not None or is_printed(files[0]):
        given = [name for name, usual in asked().items() if name != "level" and how[name] != usual]
        if given := given + ["plot"] * (plot is not None):
            raise ValueError(
                f"a table of a paper takes --level alone of a comparison's options, got {', '.join(given)}."
            )
        _printed(
            files, form, out, how["level"], runs=runs, spread=spread, methods=methods_in, smaller=smaller, table=number
        )
        return
    from fedstat.inference import AnalysisPlan, read_results
    from fedstat.inference import compare as compared

    kind = _format(form, out)
    if plot is not None and plot.suffix.lower() not in (".pdf", ".svg", ".png"):
        raise ValueError(f"--plot must end in .pdf, .svg or .png, got {plot}.")
    columns, plan = how.pop("columns"), how.pop("plan")
    results = {str(file): read_results(file, columns=columns) if columns else file for file in files}
    if len(results) < len(files):
        raise ValueError("one file is named twice; name each once.")
    found = compared(results, plan=None if plan is None else AnalysisPlan.read(plan), smaller=smaller, **how)
    if plot is not None:
        import matplotlib.pyplot as plt

        found.plot()
        with atomic_file(plot) as temporary:
            plt.savefig(temporary, format=plot.suffix.lower().removeprefix("."))
        plt.close()
    text = {"text": found.__str__, "markdown": found.to_markdown, "latex": found.to_latex, "csv": found.to_csv}[kind]()
    if out is None:
        typer.echo(text)
    else:
        write_text(out, text.removesuffix("\n") + "\n")
        typer.echo("\n".join([*found.conclusions, found.generalises, "", str(out)]))
    if plot is not None:
        typer.echo(str(plot) if out is not None else f"\n{plot}", err=out is None and kind != "text")


def _printed(files: list[Path], form: str | None, out: Path | None, level: float | None, **how: Any) -> None:
    """Say which bold faces of a paper's table stand; a .csv takes every comparison, a .tex the table with new marks."""
    from fedstat.inference import compare_printed, read_printed

    if len(files) > 1:
        raise ValueError(f"a table of a paper stands alone, got {len(files)} files.")
    kind = _format(form, out)
    if kind == "markdown":
        raise ValueError("--format must be text, latex or csv for a table of a paper, got markdown.")
    found = compare_printed(read_printed(files[0], **how), level=0.95 if level is None else level)
    text = {"text": str(found), "latex": found.to_latex(), "csv": found.differences.to_csv(index=False)}[kind]
    if out is None:
        typer.echo(text)
        return
    write_text(out, text.removesuffix("\n") + "\n")
    typer.echo(str(out) if kind == "text" else f"{found}\n\n{out}")


def _format(form: str | None, out: Path | None) -> str:
    """Return the format that is asked for, by name or by how the file ends."""
    if form not in (None, *_FORMATS.values()):
        raise ValueError(f"--format must be one of {', '.join(dict.fromkeys(_FORMATS.values()))}, got {form!r}.")
    ends = None if out is None else _FORMATS.get(out.suffix.lower())
    if out is not None and out.suffix and form is None and ends is None:
        raise ValueError(f"--out must end in .md, .tex, .csv or .txt, got {out}; or name the format with --format.")
    if out is not None and out.suffix and form is not None and ends not in (None, form):
        raise ValueError(f"--out {out} and --format {form} contradict each other: leave one of them out.")
    return form or ends or "text"
