"""Statistics of runs, fedstat's or anybody's: what differs, what is equivalent, and what is not known.

=========================  ============================================================================================
reading results            `read_results` (folder ``formats``: one file for each format)
comparing methods          `compare` and its `Comparison`; `Design`, `simultaneous`, `shape_notes`
assessing predictions      `assess` and its `Assessment`: by client, over patients and over runs
two methods                `paired_difference`, `sign_flip_test`, `equivalence`
planning and stopping      `plan`, `AnalysisPlan`, `looks`; `by_source` and `components` for where the spread comes from
clients and time           `who_benefits`, `fairness`, `to_target`
several settings           `ranks`
a paper's numbers          `agrees`
single quantities          `mean_interval`, `clopper_pearson`
=========================  ============================================================================================

All of it takes arrays and tables, and does without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
