"""The parts of Factorized-FL's readings, its variants, and what the study finds in planted truths."""

from typing import get_args

import pytest

from fedstat.federated.local import Training
from fedstat.methods import FactorizedFL
from fedstat.methods.factorizedfl import ReadingPart
from simulations.factorized_parts.arms import SWITCHES
from simulations.factorized_parts.variants import Mixed
from tests.support.runs import differ, run, same

PARTS = get_args(ReadingPart)
MOMENTUM = Training(lr=0.02, momentum=0.9, batch_size=8, local_epochs=2)


@pytest.mark.parametrize("variant", ["alpha", "beta"])
@pytest.mark.parametrize(("reading", "other"), [("code", "text"), ("text", "code")])
def test_a_reading_with_all_parts_switched_is_the_other_reading(variant, reading, other):
    options = {"variant": variant, "tau": 0.0, "epsilon": 1.0, "sparsity": 0.003}
    mixed = run(Mixed(reading=reading, switched=PARTS, **options), rounds=3, training=MOMENTUM)
    same(mixed, run(FactorizedFL(reading=other, **options), rounds=3, training=MOMENTUM))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_changes_the_code_s_reading(part):
    options = {"variant": "beta", "tau": 0.0, "epsilon": 1.0, "sparsity": 0.003}
    plain = run(Mixed(**options), rounds=3, training=MOMENTUM)
    differ(plain, run(Mixed(switched=(part,), **options), rounds=3, training=MOMENTUM))


def test_the_switches_of_the_study_are_all_parts():
    assert sorted(part for parts in SWITCHES.values() for part in parts) == sorted(PARTS)
