from .agreement import auc, chance_corrected, entropy_nearest_neighbour
from .comparison import Comparison, compare, primary_rows, primary_summary
from .formatting import interval, number, p_value
from .missing import complete_mean, count_missing
from .paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .planning import SampleSize, plan
from .printed_values import Agreement, agrees
from .proportion import clopper_pearson
from .sequential import Looks, added_seeds, looks
from .tost import Equivalence, Equivalences, equivalence, equivalences
from .variance_components import Components, components

__all__ = [
    "Agreement",
    "Comparison",
    "Components",
    "Equivalence",
    "Equivalences",
    "Looks",
    "PairedDifference",
    "SampleSize",
    "added_seeds",
    "agrees",
    "auc",
    "chance_corrected",
    "clopper_pearson",
    "compare",
    "complete_mean",
    "components",
    "count_missing",
    "entropy_nearest_neighbour",
    "equivalence",
    "equivalences",
    "holm",
    "interval",
    "looks",
    "mean_interval",
    "number",
    "p_value",
    "paired_difference",
    "plan",
    "primary_rows",
    "primary_summary",
    "sign_flip_test",
]
