"""``fedstat doctor``: what this machine has, and what is missing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata

import typer

_PACKAGES = ("torch", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "statsmodels", "matplotlib", "typst")
#: What comes on request: the packages of an extra, and what it is for.
EXTRAS = {
    "flower": (("flwr", "grpcio"), "a simulated method as a Flower app with clients that talk over gRPC"),
    "hdf5": (("h5py",), "results of PFLlib, which come as HDF5"),
    "privacy": (("dp-accounting",), "epsilon, the differential privacy that a run comes to"),
    "ray": (("ray",), "clients' work, studies and claims on a Ray cluster"),
    "worst-case": (("pepit", "clarabel", "scs"), "the worst case of a method over all functions of a class"),
}


def doctor() -> None:
    """Say what this machine has: versions, devices, threads, data, and which optional parts are missing.

    Add what it prints to a report of an error. It changes nothing.

    Example:

    \b
    fedstat doctor
    """
    for heading, lines in (
        ("Versions", _versions()),
        ("Devices", _devices()),
        ("Threads", _threads()),
        ("Data", _data()),
        ("Optional parts", _extras()),
    ):
        typer.echo(f"{heading}\n" + "\n".join(f"  {line}" for line in lines) + "\n")
    typer.echo("Next: `fedstat new mine` makes an experiment that runs at once.")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> Iterator[str]:
    from fedstat import __file__ as file
    from fedstat import __version__

    yield f"fedstat {__version__} in {os.path.dirname(file)}"
    yield f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    found = {package: _version(package) for package in _PACKAGES}
    yield ", ".join(f"{package} {version}" for package, version in found.items() if version)
    for package in (package for package, version in found.items() if version is None):
        yield f"MISSING: {package}; pip install {package}"


def _devices() -> Iterator[str]:
    import torch

    from fedstat._environment import processor

    yield f"cpu: {processor()}"
    for i in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(i)
        yield f"cuda:{i}: {found.name}, {found.total_memory / 2**30:.0f} GiB; --device cuda:{i}"
    if torch.backends.mps.is_available():
        yield "mps: Apple's GPU; --device mps"
    elif not torch.cuda.is_available():
        built = f"made for CUDA {torch.version.cuda}" if torch.version.cuda else "made for processors alone"
        yield f"no accelerator that torch finds here ({built})"


def _threads() -> Iterator[str]:
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield f"cores: {os.cpu_count()}, of which this process may use {usable}"
    limit = os.environ.get("OMP_NUM_THREADS")
    yield f"torch computes with {torch.get_num_threads()}; OMP_NUM_THREADS is {limit or 'not set'}"


def _data() -> Iterator[str]:
    from fedstat.data.datasets import available, data_root, present

    root, chosen = data_root(), os.environ.get("FEDSTAT_DATA")
    origin = "FEDSTAT_DATA" if chosen else "the default; FEDSTAT_DATA names another"
    yield f"looked for in {root} ({origin}{'' if root.is_dir() else '; there is no such folder'})"
    there = present()
    yield f"there: {', '.join(there) or 'none'}"
    missing = [source for name, source in available().items() if name not in there]
    if fetched := [source.name for source in missing if source.downloads]:
        yield f"not there: {', '.join(fetched)}; `fedstat data fetch {fetched[0]}` gets one"
    if by_hand := [source.name for source in missing if not source.downloads]:
        yield f"not there, and to be got by hand: {', '.join(by_hand)}; `fedstat data list {by_hand[0]}` says how"


def _extras() -> Iterator[str]:
    for extra, (packages, purpose) in EXTRAS.items():
        found = {package: _version(package) for package in packages}
        if None in found.values():
            yield f"{extra}: MISSING; pip install 'fedstat[{extra}]' ({purpose})"
        else:
            yield f"{extra}: {', '.join(f'{package} {version}' for package, version in found.items())} ({purpose})"
