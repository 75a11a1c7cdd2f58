"""Say where results come from: versions, revision of the code, machine."""

from __future__ import annotations

import functools
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Return the versions, the revision of the code and the machine that a result must name.

    `device` is the one on which networks were trained.
    """
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        named = f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"
    else:
        named = processor() if device.type == "cpu" else str(device)
    return {
        "revision": _revision(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": _versions(),
        "device": named,
        "threads": torch.get_num_threads(),
    }


@functools.cache
def _versions() -> dict[str, str]:
    packages = ("fedstat", "numpy", "scipy", "pandas", "scikit-learn", "statsmodels", "torch")
    return {name: metadata.version(name) for name in packages}


@functools.cache
def processor() -> str:
    """Return the processor's model name, which Python itself does not know on Linux."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


@functools.cache
def _revision() -> str:
    """Return the git revision of a checkout of fedstat, "-dirty" with uncommitted changes; "" for a wheel."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # another project's repository may lie above
        return git("describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return ""
