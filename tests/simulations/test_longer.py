"""The study of FedDecomp trained longer runs what the study of FedDecomp runs, but for rounds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from simulations.feddecomp import study as feddecomp
from simulations.feddecomp.cells import CODE, QUESTION, TEXT
from simulations.feddecomp.per_seed import layouts
from simulations.longer import numbers
from simulations.longer.study import METHODS, SCALES, jobs

LONG, APART = SCALES["paper"].experiments
RATES = {arm: 0.01 * i for i, arm in enumerate((*METHODS, TEXT), start=1)}


def test_images_network_and_sizes_are_those_of_the_study_of_feddecomp():
    of = feddecomp.SCALES["desk"].experiments[0]
    for experiment, rounds in ((APART, of.setup.rounds), (LONG, 2 * of.setup.rounds)):
        assert experiment.world.name == f"{of.world.name}, {rounds} rounds"
        assert replace(experiment.world, name=of.world.name) == of.world
        assert experiment.setup == replace(of.setup, rounds=rounds)
        assert (experiment.rates, experiment.tuning_seeds, experiment.tuned_at, experiment.tuning_rounds) == (
            of.rates, of.tuning_seeds, of.tuned_at, rounds,
        )  # fmt: skip
    assert APART.main == of.main[:1]


def test_every_arm_has_its_own_rate_and_feddecomp_taken_apart_that_of_feddecomp():
    scale = SCALES["paper"]
    long, apart = (list(jobs(scale, of, RATES)) for of in scale.experiments)
    assert {(job.arm, job.dirichlet) for job in long} == {(arm, a) for arm in METHODS for a in (0.1, 0.5, 1.0)}
    assert {job.lr for job in apart if job.arm not in QUESTION} == {RATES[CODE]}
    assert all(job.lr == RATES[job.arm] for job in (*long, *apart) if job.arm in RATES)
    assert {job.train for job in apart if job.arm in QUESTION} == {150, 300, 600}
    assert len({job.name for job in (*long, *apart)}) == len(long) + len(apart) == 18 + 25
    assert all(job.seeds == tuple(range(100, 105)) for job in (*long, *apart))


def test_runs_of_one_arm_need_no_other_rate():
    alone = [job for arm in APART.arms for job in jobs(SCALES["paper"], APART, {arm: RATES[arm]})]
    together = list(jobs(SCALES["paper"], APART, RATES))
    assert sorted((job.name, job.lr) for job in alone) == sorted((job.name, job.lr) for job in together)


def test_what_the_second_half_gave_is_taken_within_runs():
    rounds = np.arange(1, 17)
    curves = [
        {"seed": seed, "round": r, "accuracy": (r * slope + seed) / 100, "world": "w", "arm": arm, "dirichlet": 0.1,
         "train": 30}
        for seed in (1, 2) for arm, slope in ((CODE, 2), ("Local", 1)) for r in rounds
    ]  # fmt: skip
    tables = {"curves": pd.DataFrame(curves), "accuracy": pd.DataFrame(curves).rename(columns={"accuracy": "value"})}
    found = numbers._halves(tables, layouts(tables)[0], 0.1)
    assert found.loc[2, CODE] == pytest.approx(2 * 15.5 + 2)
    assert found.loc[1, numbers.half("Local")] == pytest.approx(7.5 + 1)
