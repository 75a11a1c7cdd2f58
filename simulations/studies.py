"""Find the studies and run them; say what their tables tell."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from fedstat._files import atomic_file
from fedstat._tables import Tables, read_tables
from fedstat.data import datasets
from fedstat.federated.client.network import check_device
from fedstat.report.figures import write_svg
from simulations import NAMES
from simulations.contract import About, Finding
from simulations.effects import Effects
from simulations.estimates import noted
from simulations.tables import read_config, write_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: smoke: seconds; quick: minutes on two cores; desk: what two cores do in the background, where a paper's sizes need a
#: GPU; paper: the paper's sizes.
Scale = Literal["smoke", "quick", "desk", "paper"]
#: What all chapters import.
WORDS = Path(__file__).parent / "words.typ"

_DPI = 200  # of what is made of pixels
_UNDATED = {"pdf": {"CreationDate": None}}


class Study(Protocol):
    """What ``study.py`` offers; `evidence`, which chooses the tables to be committed, may be left out: then all are."""

    ABOUT: About
    SCALES: Mapping[str, Any]

    def run(self, scale: Any, out: Path) -> Tables:
        """Compute all tables, with finished parts cached under `out`."""


class Numbers(Protocol):
    """What ``numbers.py`` offers, all of it made of the tables that the study commits.

    A study that compares nothing leaves out `effects`.
    """

    def effects(self, tables: Tables) -> Effects:
        """Return every difference that the study reports."""

    def numbers(self, tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the chapter prints: records with named fields, fit for JSON."""

    def findings(self, tables: Tables) -> dict[str, Finding]:
        """Return the quantities on whose sign the chapter's words rest."""

    def figures(self, tables: Tables) -> dict[str, Figure]:
        """Draw the chapter's figures, by name."""


def study(name: str) -> Study:
    """Return the study of that name."""
    return cast(Study, importlib.import_module(f"simulations.{name}.study"))


def handed_over(name: str) -> Numbers:
    """Return what the study of that name hands to the report."""
    return cast(Numbers, importlib.import_module(f"simulations.{name}.numbers"))


def chapter(name: str) -> Path:
    """Return the study's chapter, a Typst file that offers `message` and `chapter`."""
    return Path(__file__).parent / name / "chapter.typ"


def in_order() -> list[str]:
    """Return the names of all studies, in the order of their chapters."""
    return sorted(NAMES, key=lambda name: study(name).ABOUT.order)


def simulate(name: str, scale: Scale, out: Path, *, second_look: bool = True, device: str = "cpu") -> Tables:
    """Run a study (or read its cache), write its tables to ``out/NAME``.

    Parameters
    ----------
    name : str
        Which study.
    scale : str
        One of its scales.
    out : Path
        Output folder; finished parts are cached there.
    second_look : bool
        Whether the scales below the papers' use seeds that no committed table holds.
    device : str
        Torch device on which networks train, such as ``"cuda"``.

    Raises
    ------
    ValueError
        If the study has no such scale or trains no networks on a device, or torch does not find the device.
    FileNotFoundError
        If data are missing that the study needs; the command that fetches them is named.
    """
    found = study(name)
    if scale not in found.SCALES:
        raise ValueError(f"scale must be one of {', '.join(found.SCALES)} for the study {name}, got {scale!r}.")
    size = found.SCALES[scale] if second_look else replace(found.SCALES[scale], shift=0)
    if device != "cpu":
        if not hasattr(size, "device"):
            raise ValueError(f"device must be cpu for the study {name}, which has no other, got {device!r}.")
        check_device(device)
        size = replace(size, device=device)
    check_data(name, scale)
    tables = found.run(size, out)
    write_tables(out / name, tables, {"simulation": name, "scale": scale, **asdict(size)})
    return tables


def check_data(name: str, scale: Scale) -> None:
    """Refuse to go on if data are missing that the study reads at this scale.

    Raises
    ------
    FileNotFoundError
        It names the command that fetches them.
    """
    for data in study(name).ABOUT.data if scale != "smoke" else ():
        datasets.check_present(data)


def evidence(name: str, tables: Tables) -> Tables:
    """Return the small tables that are committed: the study's own choice, or all of them."""
    chosen: Tables = getattr(study(name), "evidence", dict)(tables)
    return chosen


def effects(name: str, tables: Tables) -> Effects:
    """Return every difference that a study reports, of committed tables; none if it compares nothing."""
    found: Effects = getattr(handed_over(name), "effects", lambda tables: Effects(()))(tables)
    return found


def draw(name: str, tables: Tables, folder: Path, forms: Sequence[str] = ("svg",)) -> dict[str, Path]:
    """Draw the figures of committed tables in these forms; return the files of the first by the figures' names."""
    files = {}
    for stem, figure in handed_over(name).figures(tables).items():
        for form in forms:
            with atomic_file(folder / f"{stem}.{form}") as path:
                if form == "svg":
                    write_svg(figure, path)
                else:
                    figure.savefig(path, format=form, dpi=_DPI, metadata=_UNDATED.get(form))
        files[stem] = folder / f"{stem}.{forms[0]}"
    return files


def tell(name: str, folder: Path) -> tuple[Tables, dict[str, Any], dict[str, Finding]]:
    """Read a folder of tables; return what is committed of them, the chapter's numbers and the findings.

    Among the numbers stands, as ``undefined``, why some of them are not there: each reason once.

    Raises
    ------
    OSError, ValueError
        If a file is missing or damaged, or lacks what the numbers need.
    """
    module = handed_over(name)
    tables, config = read_tables(folder), read_config(folder)
    try:
        with noted() as reasons:
            tables = evidence(name, tables)
            numbers, findings = module.numbers(tables, config), module.findings(tables)
        return tables, {"config": config, **numbers, "undefined": list(reasons)}, findings
    except KeyError as error:
        held = "; ".join(f"{key}.csv holds {', '.join(map(str, table))}" for key, table in tables.items())
        raise ValueError(f"{folder} lacks {error}, which the chapter of {name} needs: {held}.") from error


def record(
    name: str, numbers: Mapping[str, Any], findings: Mapping[str, Finding], pictures: Mapping[str, Path]
) -> dict[str, Any]:
    """Return what a chapter prints, as plain values; `pictures` are its figures by the names of their files."""
    about = study(name).ABOUT
    return {
        **numbers,
        "name": name,
        "about": {"title": about.title, "paper": about.paper, "place": about.where},
        "figures": {path.stem: f"/{file}" for file, path in pictures.items()},
        "findings": {key: finding.record() for key, finding in findings.items()},
    }
