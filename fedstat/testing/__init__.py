"""The laws that methods obey, and optimisers, losses, metrics, schedules, executors and more: built in or anybody's."""

from fedstat.testing.methods import Case, check_method
from fedstat.testing.parts import (
    check_aggregator,
    check_attack,
    check_attendance,
    check_compression,
    check_executor,
    check_loss,
    check_mechanism,
    check_metric,
    check_optimizer,
    check_schedule,
)

__all__ = [
    "Case",
    "check_aggregator",
    "check_attack",
    "check_attendance",
    "check_compression",
    "check_executor",
    "check_loss",
    "check_mechanism",
    "check_method",
    "check_metric",
    "check_optimizer",
    "check_schedule",
]
