from .aggregates import ImprovementProbability, InterquartileMeans, interquartile_mean, probability_of_improvement
from .agreement import auc, chance_corrected, entropy_nearest_neighbour
from .client_fairness import Fairness, fairness, gini, jain_index
from .comparison import Comparison, compare, primary_rows, primary_summary
from .formatting import interval, number, p_value
from .missing import complete_mean, count_missing
from .paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .proportion import clopper_pearson
from .random_effects import MetaAnalysis, meta_analysis
from .settings import Ranks, ranks
from .targets import TimeToTarget, to_target
from .tost import Equivalence, equivalence, equivalence_power
from .weighting import BothWeightings, both_weightings

__all__ = [
    "BothWeightings",
    "Comparison",
    "Equivalence",
    "Fairness",
    "ImprovementProbability",
    "InterquartileMeans",
    "MetaAnalysis",
    "PairedDifference",
    "Ranks",
    "TimeToTarget",
    "auc",
    "both_weightings",
    "chance_corrected",
    "clopper_pearson",
    "compare",
    "complete_mean",
    "count_missing",
    "entropy_nearest_neighbour",
    "equivalence",
    "equivalence_power",
    "fairness",
    "gini",
    "holm",
    "interquartile_mean",
    "interval",
    "jain_index",
    "mean_interval",
    "meta_analysis",
    "number",
    "p_value",
    "paired_difference",
    "primary_rows",
    "primary_summary",
    "probability_of_improvement",
    "ranks",
    "sign_flip_test",
    "to_target",
]
