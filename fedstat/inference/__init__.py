"""Statistics of comparisons: intervals, paired and equivalence tests, agreement, entropy."""

from fedstat.inference.agreement import auc, chance_corrected, entropy_nearest_neighbour
from fedstat.inference.compare import Comparison, compare, primary_rows, primary_summary
from fedstat.inference.equivalence import Equivalence, equivalence, equivalence_power
from fedstat.inference.formatting import interval, number, p_value
from fedstat.inference.missing import complete_mean, count_missing
from fedstat.inference.paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from fedstat.inference.proportion import clopper_pearson

__all__ = [
    "Comparison",
    "Equivalence",
    "PairedDifference",
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
    "sign_flip_test",
]
