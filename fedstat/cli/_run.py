"""``fedstat run``: an experiment, from one file to a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def run(
    config: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The experiment, a .toml file.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/NAME-OF-THE-FILE")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as partition.alpha=0.1; repeatedly."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Run so many seeds, counted on from the first in the file.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Torch device, such as cuda; changes the file's.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped; start it if there is none.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print configuration, clients and estimate; run and write nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only, and no progress.")] = False,
) -> None:
    """Run methods on data as a file says, and compare them.

    The folder receives the configuration with all defaults, who held what
    (partition-SEED.npz, .svg), the run itself (run/, for fedstat.load), a
    line for every client (clients.csv) and the comparison (summary.csv).
    Python files that the configuration names are run.

    Examples:

    \b
    fedstat run digits.toml --seeds 6
    fedstat run cifar10.toml --set partition.alpha=0.5 --out runs/half
    fedstat run cifar10.toml --out runs/half --set partition.alpha=0.5 --resume
    """
    from dataclasses import replace

    import tomli_w

    from fedstat.experiment.build import set_up
    from fedstat.experiment.config import to_table
    from fedstat.experiment.estimate import estimate
    from fedstat.experiment.reading import read, setting
    from fedstat.experiment.run import carry_out, check_folder

    wanted: dict[str, Any] = dict(map(setting, changes or ()))
    if device is not None:
        wanted["device"] = device
    experiment = read(config, wanted)
    if seeds is not None:
        first = experiment.seeds[0]
        experiment = replace(experiment, seed=tuple(range(first, first + seeds)))
    folder = out if out is not None else Path("runs") / config.stem
    say = (lambda text: None) if quiet else typer.echo

    try:
        done = 0 if dry_run else check_folder(folder, experiment, resume)
        setup = set_up(experiment)
        if dry_run:
            say(tomli_w.dumps(to_table(experiment)))
        say(f"{setup.dataset.name}, seed {experiment.seeds[0]}: {setup.clients[experiment.seeds[0]]}")
        if setup.dataset.lossy:
            say(f"LOSSY DATA: {setup.dataset.lossy}")
        if done < experiment.rounds:
            counts = {"round": experiment.rounds - done, "method": len(setup.methods), "seed": len(experiment.seeds)}
            size = ", ".join(f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items())
            say(f"\n{size}: {estimate(setup, done)}\n")
        if dry_run:
            return
        _, summary = carry_out(setup, folder, progress=False if quiet else None)
    except FloatingPointError as error:
        raise ValueError(str(error)) from None
    typer.echo(str(summary))
    typer.echo(f"\n{folder}")
