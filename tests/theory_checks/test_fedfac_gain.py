"""Whether FedFac's gain is due to factor analysis: the claim on planted tables of images, and without any."""

import numpy as np
import pandas as pd
import pytest

from fedstat.claims import Studies
from simulations.tables import write_tables
from theory_checks.fedsplit.fs45_gain_from_factor_analysis import images_code, images_fedper, images_static

MEANS = {
    "FedAvg": 0.5, "Local": 0.6, "FedPer": 0.65, "random split": 0.66, "random split, every round": 0.6,
    "layer split": 0.64, "FedFac code": 0.66, "FedFac dynamic": 0.7, "FedFac agreement": 0.65,
}  # fmt: skip


def _studies(folder, **means):
    """Write accuracies of six seeds in two settings, paired within a fifth of a point, as the study of images does."""
    rng, rows = np.random.default_rng(0), []
    for setting in ("images", "digits"):
        for seed in range(6):
            level = rng.normal(scale=0.05)
            for arm, mean in (MEANS | means).items():
                value = mean + level + rng.normal(scale=0.001)
                rows += [(setting, arm, seed, "accuracy", value), (setting, arm, seed, "log_loss", 9.0)]
    table = pd.DataFrame(rows, columns=["setting", "arm", "seed", "metric", "value"])
    write_tables(folder / "fedfac", {"accuracy": table}, {"simulation": "fedfac"})
    return Studies(folder)


@pytest.mark.parametrize(("static", "verdict"), [(0.72, "supported"), (0.66, "refuted"), (0.665, "refuted")])
def test_a_gain_is_one_over_a_random_split_of_the_same_size(tmp_path, static, verdict):
    studies = _studies(tmp_path, **{"FedFac static": static})
    assert images_static(studies).verdict == verdict
    assert images_fedper(studies).verdict == verdict  # which is more than FedPer's in every case
    assert images_code(studies).verdict == "refuted"


def test_without_tables_of_images_nothing_is_decided(tmp_path):
    found = images_static(Studies(tmp_path))
    assert found.verdict == "undecided"
    assert "python -m simulations fedfac" in found.summary
