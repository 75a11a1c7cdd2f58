from .analysis_plan import AnalysisPlan
from .client_benefit import Benefit, who_benefits
from .client_fairness import Fairness, fairness
from .comparing.compare import compare
from .comparing.comparison import Comparison
from .formatting import interval, number, p_value
from .intervals.design import Design
from .intervals.equivalence import Equivalence, equivalence
from .intervals.family import Family, simultaneous
from .intervals.paired import PairedDifference, holm, mean_interval, paired_difference, sign_flip_test
from .intervals.planning import SampleSize, plan
from .intervals.sequential import Looks, looks
from .intervals.shape import shape_notes
from .predictions.assessment import Assessment, assess
from .printed.standing import PrintedComparison, compare_printed
from .printed.table import PrintedTable, read_printed
from .printed_values import Agreement, agrees
from .proportion import clopper_pearson
from .reading.missing import count_missing
from .reading.primary import primary_rows, primary_summary
from .reading.read import Measurements, read_results
from .reading.reduction import Reduced, reduce
from .settings import Ranks, ranks
from .sources import by_source
from .targets import TimeToTarget, to_target
from .variance_components import Components, components

__all__ = [
    "Agreement",
    "AnalysisPlan",
    "Assessment",
    "Benefit",
    "Comparison",
    "Components",
    "Design",
    "Equivalence",
    "Fairness",
    "Family",
    "Looks",
    "Measurements",
    "PairedDifference",
    "PrintedComparison",
    "PrintedTable",
    "Ranks",
    "Reduced",
    "SampleSize",
    "TimeToTarget",
    "agrees",
    "assess",
    "by_source",
    "clopper_pearson",
    "compare",
    "compare_printed",
    "components",
    "count_missing",
    "equivalence",
    "fairness",
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
    "ranks",
    "read_printed",
    "read_results",
    "reduce",
    "shape_notes",
    "sign_flip_test",
    "simultaneous",
    "to_target",
    "who_benefits",
]
