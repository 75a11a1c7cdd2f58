"""Time rounds of FedAvg on a GPU: stacked clients and clients one by one, against plain torch loops.

Run ``python benchmarks/gpu.py`` on a machine with CUDA: ResNet-8, 40 clients of 500 images 3x32x32, batches of 100,
five local epochs, all clients, in float32, with TF32 and in mixed precision. ``--device cpu --small`` runs the same
code on a few images, to see that it runs; its numbers say nothing.

``torch.compile`` and CUDA graphs are not offered. Compiling lost on a CPU (see ``conv.py``). On a GPU neither was
measured: a graph would have to be captured anew for every chunk, phase and width of a last batch, and gains most where
single clients launch small kernels, which stacking avoids already.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from conv import Setting, compare, engine, plain

import fedstat as fs
from fedstat.federated.client.network import products


def main() -> None:
    """Print the comparison in each precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="four clients of 20 images, one epoch")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --device cpu --small shows that the benchmark runs.")
    count, samples, epochs = (4, 20, 1) if options.small else (40, 500, 5)
    training = fs.Training(lr=0.05, batch_size=samples // 5, local_epochs=epochs)
    base = Setting(fs.models.resnet8(10), (3, 32, 32), count, samples, count, training, options.device)
    clients = base.make_clients()
    for dtype in ("float32", "tf32", "bf16-mixed"):
        setting = replace(base, dtype=dtype)
        sides = {
            "plain": (plain(setting, clients), 1),
            "plain fast": (plain(setting, clients, fast=True), 1),
            "engine": (engine(setting, clients, 2), 2),
            "engine, one by one": (engine(setting, clients, 2, "per-client"), 2),
        }
        with products(tf32=dtype == "tf32"):  # the plain loops as well
            compare(setting, sides, options.turns, 512 if options.small else 8192)


if __name__ == "__main__":
    main()
