"""Where samples come from: own arrays and files, synthetic generators with known truth, partitions."""

from fedstat._mapped import Mapped
from fedstat.data import datasets
from fedstat.data.arrays import from_arrays, from_indices
from fedstat.data.clients import Clients, Samples
from fedstat.data.datasets import digits
from fedstat.data.dealing import (
    CIFAR100_DOMAINS,
    by_group,
    dirichlet,
    dirichlet_draws,
    domains,
    iid,
    one_label_shards,
    own_test,
    permute_labels,
    shards,
)
from fedstat.data.files import from_csv, from_npz
from fedstat.data.gaussian_task import GaussianTruth, gaussian_task
from fedstat.data.partition import Partition
from fedstat.data.pfllib import from_pfllib
from fedstat.data.product_clients import product_clients
from fedstat.data.quadratics import Quadratics, random_quadratics
from fedstat.data.relu_mixture import ReluTruth, relu_mixture

__all__ = [
    "CIFAR100_DOMAINS",
    "Clients",
    "GaussianTruth",
    "Mapped",
    "Partition",
    "Quadratics",
    "ReluTruth",
    "Samples",
    "by_group",
    "datasets",
    "digits",
    "dirichlet",
    "dirichlet_draws",
    "domains",
    "from_arrays",
    "from_csv",
    "from_indices",
    "from_npz",
    "from_pfllib",
    "gaussian_task",
    "iid",
    "one_label_shards",
    "own_test",
    "permute_labels",
    "product_clients",
    "random_quadratics",
    "relu_mixture",
    "shards",
]
