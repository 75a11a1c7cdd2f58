from .agreement import auc, chance_corrected, entropy_nearest_neighbour
from .comparison import Comparison, compare, primary_rows, primary_summary
from .formatting import interval, number, p_value
from .missing import complete_mean, count_missing
from .paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .proportion import clopper_pearson
from .reading import Measurements, read_results, reduce_file
from .reduction import Reduced, reduce, survey
from .tost import Equivalence, equivalence, equivalence_power

__all__ = [
    "Comparison",
    "Equivalence",
    "Measurements",
    "PairedDifference",
    "Reduced",
    "auc",
    "chance_corrected",
    "clopper_pearson",
    "compare",
    "complete_mean",
    "count_missing",
    "entropy_nearest_neighbour",
    "equivalence",
    "equivalence_power",
    "holm",
    "interval",
    "mean_interval",
    "number",
    "p_value",
    "paired_difference",
    "primary_rows",
    "primary_summary",
    "read_results",
    "reduce",
    "reduce_file",
    "sign_flip_test",
    "survey",
]
