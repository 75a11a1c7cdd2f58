from .agreement import auc, chance_corrected, entropy_nearest_neighbour
from .analysis_plan import AnalysisPlan
from .client_fairness import Fairness, fairness, gini, jain_index
from .comparing import compare
from .comparison import Comparison
from .design import Design
from .family import Family, simultaneous
from .formatting import interval, number, p_value
from .missing import complete_mean, count_missing
from .moderated import Moderated, moderate_variances
from .paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .planning import SampleSize, plan
from .primary import primary_rows, primary_summary
from .printed_values import Agreement, agrees
from .proportion import clopper_pearson
from .reading import Measurements, read_results, reduce_file
from .reduction import Reduced, reduce, survey
from .sequential import Looks, added_seeds, looks
from .shape import shape_notes
from .tost import Equivalence, Equivalences, equivalence, equivalence_power, equivalences
from .variance_components import Components, components

__all__ = [
    "Agreement",
    "AnalysisPlan",
    "Comparison",
    "Components",
    "Design",
    "Equivalence",
    "Equivalences",
    "Fairness",
    "Family",
    "Looks",
    "Measurements",
    "Moderated",
    "PairedDifference",
    "Reduced",
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
    "equivalence_power",
    "equivalences",
    "fairness",
    "gini",
    "holm",
    "interval",
    "jain_index",
    "looks",
    "mean_interval",
    "moderate_variances",
    "number",
    "p_value",
    "paired_difference",
    "plan",
    "primary_rows",
    "primary_summary",
    "read_results",
    "reduce",
    "reduce_file",
    "shape_notes",
    "sign_flip_test",
    "simultaneous",
    "survey",
]
