"""The example configurations: every file and every variation that its comments offer is valid, and fits its data."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat.experiment import read
from fedstat.experiment.build import _network
from fedstat.experiment.keys import setting

FOLDER = Path(__file__).parents[2] / "simulations" / "configs"
FILES = sorted(FOLDER.glob("*.toml"))

#: One sample's shape, the classes and, for text, the alphabet of each data set.
DATA = {
    "digits": ((8, 8), 10, None),
    "cifar10": ((3, 32, 32), 10, None),
    "cifar10-jpeg": ((3, 32, 32), 10, None),
    "cifar100": ((3, 32, 32), 100, None),
    "svhn": ((3, 32, 32), 10, None),
    "tiny-imagenet": ((3, 64, 64), 200, None),
    "femnist": ((28, 28), 62, None),
    "shakespeare": ((80,), 80, 80),
}

#: Weights of the networks that the files build, as tests/models/test_models.py counts them.
WEIGHTS = {
    ("mlp", "digits"): 64 * 64 + 64 + 64 * 10 + 10,
    ("resnet18", "cifar10"): 11_173_962,
    ("vgg16", "cifar100"): 15_299_748,
    ("two_conv", "femnist"): 6_603_710,
    ("lstm", "shakespeare"): 885_712,
    ("resnet9", "cifar10"): 2_571_338,
    ("resnet9", "svhn"): 2_571_338,
    ("resnet9", "cifar100"): 2_571_338 + 90 * 257,
    ("resnet8", "cifar10"): 1_235_274,
    ("resnet8", "cifar10-jpeg"): 1_235_274,
    ("resnet10", "cifar100"): 4_957_092,
    ("resnet10", "tiny-imagenet"): 5_008_392,
    ("alexnet", "cifar10"): 1_822_602,
    ("alexnet", "cifar100"): 1_822_602 + 90 * 129,
    ("alexnet", "tiny-imagenet"): 4_992_840,
}


def variations(path):
    """The lines of ``--set`` in a file's comments, continued ones in one piece."""
    text = re.sub(r" \\\n#\s*", " ", path.read_text(encoding="utf-8"))
    return [line.removeprefix("#").strip() for line in text.splitlines() if re.match(r"#\s+--set", line)]


def changes(line):
    words = shlex.split(line)
    assert set(words[::2]) == {"--set"}
    return dict(setting(word) for word in words[1::2])


CASES = [pytest.param(path, "", id=path.stem) for path in FILES]
CASES += [pytest.param(path, line, id=f"{path.stem} {line}") for path in FILES for line in variations(path)]


def test_every_paper_has_its_files_and_variations():
    assert {path.stem.split("-")[0] for path in FILES} >= {"fedfac", "factorized", "feddecomp", "filter"}
    assert len(CASES) > 2 * len(FILES)


@pytest.mark.parametrize(("path", "line"), CASES)
def test_a_configuration_is_valid_and_its_network_fits_its_data(path, line):
    experiment = read(path, changes(line) if line else None)
    if line:
        assert experiment != read(path)
    shape, classes, vocabulary = DATA[experiment.data.name]
    data = SimpleNamespace(name=experiment.data.name, classes=("",) * classes, vocabulary=vocabulary)
    with torch.device("meta"):
        _, network = _network(replace(experiment, device="meta"), data, shape)
    weights = sum(shape.numel() for shape in network.weights.values())
    assert weights == WEIGHTS[experiment.model.name, experiment.data.name]
    for choice in experiment.method.values():
        assert choice.name in fs.methods.available()
        for layer in choice.options.get("layers") or ():
            assert network.unit_leaves(layer)


def test_the_readme_lists_every_file():
    listed = set(re.findall(r"`([a-z0-9-]+\.toml)`", (FOLDER / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in FILES}


def test_the_file_of_the_four_hospitals_is_that_of_the_numbers_on_its_page():
    docs = FOLDER.parents[1] / "docs"
    experiment, table = read(docs / "hospitals.toml"), pd.read_csv(docs / "hospitals.csv")
    assert set(table["method"]) == set(experiment.method)
    assert sorted(table["seed"].unique()) == list(experiment.seeds)
    whole = table.drop_duplicates(["seed", "name"])[[f"{split}_samples" for split in ("train", "validation", "test")]]
    assert set(whole.sum(axis=1)) == {303, 294, 123, 200}
