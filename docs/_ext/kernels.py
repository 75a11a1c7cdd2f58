"""Run pages' code in forks of this process, which have torch, pandas and the like at hand: importing takes seconds."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from importlib import import_module
from multiprocessing.context import ForkProcess

from ipykernel.kernelapp import IPKernelApp
from jupyter_client.provisioning import local_provisioner
from sphinx.application import Sphinx

#: What pages use; a page that uses more imports it itself.
IMPORTED = ("fedstat.experiment", "IPython.display", "matplotlib.pyplot", "scipy.stats", "sklearn.datasets", "torch")


def setup(app: Sphinx) -> dict[str, bool]:
    """Import what pages use, before Sphinx forks the processes that read them."""
    local_provisioner.launch_kernel = _launch
    app.connect("env-before-read-docs", lambda *_: _import())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _import() -> None:
    for name in IMPORTED:
        import_module(name)


class Kernel(ForkProcess):
    """A forked kernel, with the methods of `subprocess.Popen` that its manager calls."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Return the exit status, if it ended."""
        return self.exitcode

    def wait(self) -> int | None:
        """Wait for its end."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


def _launch(command: list[str], *, env: dict[str, str], cwd: str, **_: object) -> Kernel:
    """Do as `jupyter_client.launch_kernel`."""
    arguments = command[command.index("-f") :]
    kernel = Kernel(target=_run, args=([*arguments, f"--IPKernelApp.parent_handle={os.getpid()}"], env, cwd))
    kernel.start()
    os.setpgid(kernel.pid, kernel.pid)  # so that it is stopped with the commands that it runs
    return kernel


def _run(arguments: list[str], env: dict[str, str], cwd: str) -> None:
    """Be a kernel, and nothing that Sphinx's process was."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[1:] = []
    tempfile.tempdir = None
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.root.handlers.clear()
    asyncio.set_event_loop(asyncio.new_event_loop())
    IPKernelApp.launch_instance(arguments)
