"""``fedstat run``: run an experiment, from one file to a folder of results."""

from __future__ import annotations

import gc
import sys
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedstat._files import check_writable, complete_folder, sha256
from fedstat._in_words import counted
from fedstat._warnings import plain_warnings


def run(
    config: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The experiment, a .toml file.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/NAME-OF-THE-FILE")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as partition.alpha=0.1; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Run this many seeds, counting up from the first in the file.")
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="Method that the others are compared with; changes evaluation.control.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Largest difference that counts as none; changes evaluation.margin.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Torch device, such as cuda; changes the file's.")] = None,
    executor: Annotated[
        str | None, typer.Option(help="Who does the clients' work, such as ray; changes the file's.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped; start it if there is none.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print configuration, clients and estimate; run and write nothing. Where Python files are named, "
            "list them and print the clients.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only, and no progress.")] = False,
) -> None:
    """Run methods on data as a file says, and compare them.

    The folder receives the configuration with all defaults, who held what
    (partition-SEED.npz, .svg), the run itself (run/, for fedstat.load), a
    line for every client (clients.csv), the comparison (summary.csv) and
    the differences of all pairs of methods (pairs.csv). A table [tune] has
    parameters chosen on validation samples first (tuning.csv, tuning.txt,
    and every trial in tuning/). With predictions = true under [evaluation]
    it also keeps what the final models predict for every test sample
    (run/predictions). All keys of the file:
    python -m pydoc fedstat.experiment.config
    Python files that the configuration names are run, with your rights;
    --dry-run runs none of them, lists them, and says what can be told without
    them. A table [plan] says beforehand what will be compared, such as
    control, margin and seeds.

    SIGTERM lets the round in progress end, saves it and stops with status
    143; --resume continues. Ctrl-C stops at once, and what the last
    checkpoint holds stays.

    Examples:

    \b
    fedstat run digits.toml --seeds 6
    fedstat run cifar10.toml --set partition.alpha=0.5 --out runs/half
    fedstat run cifar10.toml --out runs/half --set partition.alpha=0.5 --resume
    """
    from dataclasses import replace

    import tomli_w

    with _no_collection():
        from fedstat.experiment.build import population, set_up
        from fedstat.experiment.config import to_table
        from fedstat.experiment.estimate import estimate
        from fedstat.experiment.keys import setting
        from fedstat.experiment.parsing import code_named, read, without_code
        from fedstat.experiment.run import carry_out, check_folder
        from fedstat.federated import Terminated

    wanted: dict[str, Any] = dict(map(setting, changes or ()))
    named = {"device": device, "executor": executor, "evaluation.control": control, "evaluation.margin": margin}
    wanted |= {key: value for key, value in named.items() if value is not None}
    code = code_named(config, wanted) if dry_run else {}
    experiment = without_code(config, wanted) if code else read(config, wanted)
    if seeds is not None:
        first = experiment.seeds[0]
        experiment = replace(experiment, seed=tuple(range(first, first + seeds)))
    if code:
        typer.echo(_listed(config, code))
        if "data.prepare" not in code:
            typer.echo(f"\nseed {experiment.seeds[0]}: {population(experiment)[0]}")
        typer.echo(f"\n{_size(experiment)}; time and memory cannot be told without that code")
        return
    folder = out if out is not None else Path("runs") / config.stem
    say = (lambda text: None) if quiet else typer.echo

    done = 0 if dry_run else check_folder(folder, experiment, resume)
    if not dry_run:
        check_writable(f"--out {folder}", folder)
    if resume and not dry_run and not done:
        tuned = " once tuning, which goes on where it was, is over" * (folder / "tuning").exists()
        typer.echo(f"{folder} holds no finished round to continue from: the run starts with round 1{tuned}", err=True)
    try:
        with plain_warnings():
            name = experiment.data.name or Path(str(experiment.data.file)).name
            with _busy(f"reading {name} and dealing it out", quiet):
                setup = set_up(experiment)
            if dry_run:
                say(tomli_w.dumps(to_table(experiment)))
            say(f"{setup.dataset.name}, seed {experiment.seeds[0]}: {setup.clients[experiment.seeds[0]]}")
            if setup.dataset.lossy:
                say(f"LOSSY DATA: {setup.dataset.lossy}")
            if done < experiment.rounds:
                before = "" if done else _tuned(experiment)
                with _busy("rehearsing a few batches", quiet):
                    expected = estimate(setup, done)
                say(f"\n{before}{_size(experiment, done)}: {expected}\n")
            if dry_run:
                return
            shown: Literal[False, "lines"] | None = False if quiet else None if sys.stderr.isatty() else "lines"
            _, summary = carry_out(setup, folder, progress=shown, resume=resume)
    except FloatingPointError as error:
        raise ValueError(str(error)) from None
    except (KeyboardInterrupt, Terminated) as stop:
        typer.echo("stopped" if dry_run else _stopped(folder, experiment.rounds), err=True)
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    typer.echo(str(summary))
    typer.echo(f"\n{folder}")


def _tuned(experiment: Any) -> str:
    """Say what is tuned before the run."""
    tune = experiment.tune
    if tune is None:
        return ""
    listed = ", ".join(f"{label} {count}" for label, count in experiment.trials.items())
    seeds = ", ".join(map(str, tune.seeds))
    rounds = tune.rounds or experiment.rounds
    return f"tuning first, in trials of {counted(rounds, 'round')} under the seeds {seeds}: {listed}; then\n"


def _size(experiment: Any, done: int = 0) -> str:
    """Count what is to run."""
    left = {"round": experiment.rounds - done, "method": len(experiment.method), "seed": len(experiment.seeds)}
    return ", ".join(counted(n, noun) for noun, n in left.items())


def _listed(config: Path, code: dict[str, str]) -> str:
    """Say which Python code a run would execute, and that it was not."""
    lines = [f"{config} names Python code, which a run executes with your rights. Nothing of it was run:", ""]
    for key, name in code.items():
        file = Path(name.rpartition(":")[0])
        known = f"SHA-256 {sha256(file)}" if file.is_file() else "there is no such file"
        lines.append(f"  {key} = {name} ({known})")
    lines += ["", "The rest of the file is as it should be, as far as it can be told without that code."]
    return "\n".join(lines)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Import without looking for garbage, of which there is none: a fifth of the time of importing torch."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _busy(what: str, quiet: bool) -> AbstractContextManager[Any]:
    """Say on a terminal what the command is doing while the block runs."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def _stopped(folder: Path, rounds: int) -> str:
    """Say which round of an interrupted run is saved, and how to continue."""
    saved = complete_folder(folder / "run") / "config.toml"
    if saved.exists():
        done = tomllib.loads(saved.read_text(encoding="utf-8"))["rounds"]
        return f"stopped; the last checkpoint in {folder} holds round {done} of {rounds}, continue with --resume"
    if (folder / "tuning").exists() and not (folder / "tuning.csv").exists():
        return f"stopped while tuning; what is done is kept in {folder / 'tuning'}, continue with --resume"
    kept = "the tuning is kept" if (folder / "tuning.csv").exists() else "nothing to continue from"
    return (
        f"stopped before the first checkpoint: {kept}, --resume starts again; --set checkpoint=1 saves after every "
        "round"
    )
