from .agreement import auc, chance_corrected, entropy_nearest_neighbour
from .analysis_plan import AnalysisPlan
from .client_fairness import Fairness, fairness, gini, jain_index
from .comparing import compare
from .comparison import Comparison
from .formatting import interval, number, p_value
from .missing import complete_mean, count_missing
from .paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .planning import SampleSize, plan
from .primary import primary_rows, primary_summary
from .proportion import clopper_pearson
from .tost import Equivalence, Equivalences, equivalence, equivalences

__all__ = [
    "AnalysisPlan",
    "Comparison",
    "Equivalence",
    "Equivalences",
    "Fairness",
    "PairedDifference",
    "SampleSize",
    "auc",
    "chance_corrected",
    "clopper_pearson",
    "compare",
    "complete_mean",
    "count_missing",
    "entropy_nearest_neighbour",
    "equivalence",
    "equivalences",
    "fairness",
    "gini",
    "holm",
    "interval",
    "jain_index",
    "mean_interval",
    "number",
    "p_value",
    "paired_difference",
    "plan",
    "primary_rows",
    "primary_summary",
    "sign_flip_test",
]
