"""CIFAR-100: 60,000 small photographs of 100 classes in 20 superclasses (Krizhevsky 2009)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.cifar import find_cifar, read_cifar

SUPERCLASSES = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
CLASSES = tuple(sorted(name for names in SUPERCLASSES.values() for name in names))
_OF = {name: superclass for superclass, names in SUPERCLASSES.items() for name in names}
_SAMPLES = 60_000

_find = partial(find_cifar, unpacked={"cifar-100-binary": "cifar-100-binary", "cifar-100-python": "cifar-100-python"})


def _read(folder: Path) -> Dataset:
    """Read the first file or folder that is found; the codes follow the alphabetical order of the files."""
    path = _find(folder)[0]
    names = {"coarse_labels": tuple(SUPERCLASSES), "fine_labels": CLASSES}
    x, labels, test = read_cifar(path, ["train"], "test", names)
    superclass, y = np.array(tuple(SUPERCLASSES))[labels[:, 0]], labels[:, 1]
    wrong = np.flatnonzero(superclass != np.array([_OF[name] for name in CLASSES])[y])
    if len(wrong):
        first = wrong[0]
        raise ValueError(f"{path}: sample {first} is of class {CLASSES[y[first]]!r} and of superclass "
                         f"{str(superclass[first])!r}, which do not belong together.")  # fmt: skip
    name = "cifar100" if len(x) == _SAMPLES else f"cifar100 ({path.name})"
    return Dataset(name, x, y, CLASSES, test, {"superclass": superclass})


SOURCE = Source(
    name="cifar100",
    about="60,000 photographs, 32x32 in colour, 100 classes in 20 superclasses",
    folder="cifar100",
    find=_find,
    read=_read,
    note="Free for research with citation.",
)
