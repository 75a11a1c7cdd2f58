"""The result files of Flower's FedNova baseline."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedstat as fs


def test_the_fednova_baseline_of_flower_is_read_by_its_files_names(tmp_path):
    """baselines/fednova/fednova/main.py, `file_name` and `df.to_csv`; the last rounds are those of its files."""
    accuracies = {
        "fedavg": (
            70.5812101910828, 72.02428343949045, 68.41162420382166,
            70.43192675159236, 70.83001592356688, 72.37261146496816,
        ),
        "fednova": (
            72.93988853503184, 73.5967356687898, 72.70103503184713,
            72.9796974522293, 72.42237261146497, 73.44745222929936,
        ),
    }  # fmt: skip
    last = {(strategy, seed): of for strategy, values in accuracies.items() for seed, of in enumerate(values, 1)}
    for (strategy, seed), accuracy in last.items():
        frame = pd.DataFrame({"round": [99, 100], "test_loss": [0.8, np.nan], "test_accuracy": [60.25, accuracy]})
        frame.to_csv(tmp_path / f"momentum_{strategy}_varEpoch_False_seed_{seed}_Dec3.csv", index=False)
    found = fs.read_results(tmp_path).history
    assert found["setting"].unique().tolist() == ["momentum, varEpoch False"]
    assert found[["split", "client", "estimand"]].drop_duplicates().to_numpy().tolist() == [["common", -1, "global"]]
    scores = found.query("metric == 'accuracy' and round == 100").set_index(["method", "seed"])["value"]
    assert scores.to_dict() == pytest.approx({key: value / 100 for key, value in last.items()})
    assert found.query("metric == 'loss'").groupby("round")["value"].count().to_dict() == {99: 12, 100: 0}
    printed = {
        of: f"{100 * own.mean():.2f} ± {196 * own.std(ddof=0) / np.sqrt(6):.2f}" for of, own in scores.groupby("method")
    }
    assert printed == {"fedavg": "70.78 ± 1.03", "fednova": "73.01 ± 0.32"}  # the table of its README
    theirs = stats.ttest_rel(accuracies["fednova"], accuracies["fedavg"]).confidence_interval(0.95)
    ours = fs.compare(tmp_path, split="common", metric="accuracy", last=1).differences.iloc[0]
    np.testing.assert_allclose(ours[["low", "high"]].to_numpy(float) * 100, theirs)
    other = "proximal_fednova_varEpoch_True_seed_4_Dec3_mu_0.001.csv"
    (tmp_path / other).write_text("round,test_loss,test_accuracy\n100,0.9,70.5\n")
    assert fs.read_results(tmp_path / other).history["setting"][0] == "proximal, mu 0.001, varEpoch True"
    with pytest.raises(ValueError, match="several data sets or settings"):
        fs.compare(tmp_path, split="common", metric="accuracy")
    (tmp_path / other).write_text("round,test_loss,test_accuracy\n100,0.9,broken\n")
    with pytest.raises(ValueError, match=f"{other}: .*broken"):
        fs.read_results(tmp_path / other)
    (tmp_path / "other.csv").write_text("round,test_loss,test_accuracy\n100,0.9,70.5\n")
    with pytest.raises(ValueError, match=r"no CSV file of Flower's FedNova baseline"):
        fs.read_results(tmp_path / "other.csv", kind="flower")
