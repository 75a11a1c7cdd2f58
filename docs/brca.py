"""Breast cancer in six regions: who dies sooner, learnt by each region alone and by all together.

``python docs/brca.py FOLDER`` reads TCGA-BRCA as FLamby publishes it: FOLDER holds brca.csv and centers.csv.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import fedstat as fs


def exponential(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return -log likelihood of times with a constant hazard, whose logarithm is the output; y < 0: still alive."""
    log_hazard = outputs.squeeze(-1)
    return log_hazard.exp() * y.abs() - (y > 0) * log_hazard


def main(folder: Path) -> None:
    """Tune, train and assess four methods, and print what the predictions are worth."""
    patients = pd.read_csv(folder / "brca.csv")
    sites = pd.read_csv(folder / "centers.csv").set_index("TSS Code")["Region"]
    patients["region"] = patients["pid"].str[5:7].map(sites)
    patients = patients[patients["region"] != "Other"]
    years = patients["T"].clip(lower=0.5) / 365.25  # times are whole days; a day of 0 is less than one
    signed = np.where(patients["E"] == 1, years, -years)
    inputs = patients.drop(columns=["pid", "region", "E", "T"])
    clients = fs.data.from_arrays(inputs, signed, patients["region"], test=0.3, validation=0.2, prepare="standard")
    model = fs.models.mlp(clients.train.x.shape[-1], 8, 1)
    training = fs.Training(lr=0.1, batch_size=16, local_epochs=2, loss=exponential, clip_norm=1.0)
    tuned = fs.tune(
        [fs.Local(), fs.FedAvg(), fs.methods.FedPer(), fs.methods.Ditto()], {"lr": [0.01, 0.03, 0.1]},
        model, clients, training, rounds=30, seed=[100, 101], metric="loss", last=5,
    )  # fmt: skip
    result = fs.federate(tuned.method, model, clients, tuned.training, rounds=30, seed=range(10), predictions=True)
    table = result.predictions().rename(columns={"value": "risk"})
    table["time"], table["event"] = table["outcome"].abs(), (table["outcome"] > 0).astype(int)
    print("Rates:", ", ".join(f"{label} {one.best['lr']:g}" for label, one in tuned.items()), end="\n\n")
    print(fs.assess(table.drop(columns="outcome"), "concordance", control="Local"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
