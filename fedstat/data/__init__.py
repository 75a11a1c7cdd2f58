"""Where samples come from: own arrays and files, synthetic generators with known truth, partitions."""

from fedstat.data.arrays import from_arrays, from_csv, from_indices
from fedstat.data.clients import Clients, Samples
from fedstat.data.gaussian_task import GaussianTruth, gaussian_task
from fedstat.data.images import digits, mnist, mnist_folder
from fedstat.data.partition import dirichlet, iid, one_label_shards
from fedstat.data.product_clients import product_clients
from fedstat.data.quadratics import Quadratics, random_quadratics
from fedstat.data.relu_mixture import ReluTruth, relu_mixture
from fedstat.data.split_teacher import TeacherTruth, split_teacher

__all__ = [
    "Clients",
    "GaussianTruth",
    "Quadratics",
    "ReluTruth",
    "Samples",
    "TeacherTruth",
    "digits",
    "dirichlet",
    "from_arrays",
    "from_csv",
    "from_indices",
    "gaussian_task",
    "iid",
    "mnist",
    "mnist_folder",
    "one_label_shards",
    "product_clients",
    "random_quadratics",
    "relu_mixture",
    "split_teacher",
]
