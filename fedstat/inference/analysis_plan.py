"""A plan of the analysis, written down before the runs that it judges."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tomli_w

from fedstat._checks import check_fields, check_level, meant, naming
from fedstat._files import write_text
from fedstat.inference.intervals.equivalence import check_margin


@dataclass(frozen=True, kw_only=True)
class AnalysisPlan:
    """What will be compared, and how, as decided before the runs are seen.

    ``fs.federate(..., plan=...)`` writes it into the run's folder before training begins, and its `digest` into the
    run's configuration; a run that began without a plan cannot get one later. What the plan leaves open (None) is
    decided by the comparison's defaults.

    Parameters
    ----------
    arms : sequence of str
        Labels of the methods that are compared, at least two; the family over which intervals and tests are adjusted.
    control : str or sequence of str, optional
        The arm, or arms, that the others are compared with; without one, all pairs are.
    margin : float, optional
        Differences smaller than this count as none, in units of the metric; positive.
    metric : str, optional
        Such as "accuracy".
    last : int
        The primary summary is the mean over so many last rounds.
    split : str, optional
        The samples measured on, such as "test".
    estimand : str or mapping of str to str, optional
        Which model is measured, of all arms or by arm.
    level : float
        Confidence level, between 0 and 1.
    seeds : int, optional
        Number of seeds planned.
    rule : str
        When more seeds are run or the study is ended, and how it is decided, in words.
    note : str
        Anything else, in words.

    Raises
    ------
    ValueError
        If a value is out of range, the control is no arm, or `estimand` names something that is no arm.

    Examples
    --------
    >>> plan = AnalysisPlan(arms=["FedAvg", "Ditto"], control="FedAvg", margin=0.02, metric="accuracy", seeds=6)
    >>> plan.digest[:8]
    '5facd71d'
    """

    arms: tuple[str, ...]
    control: str | tuple[str, ...] | None = None
    margin: float | None = None
    metric: str | None = None
    last: int = 10
    split: str | None = None
    estimand: str | Mapping[str, str] | None = None
    level: float = 0.95
    seeds: int | None = None
    rule: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """Check types and ranges."""
        listed = isinstance(self.arms, Collection) and not isinstance(self.arms, str)
        if not (listed and all(isinstance(arm, str) and arm for arm in self.arms)):
            raise ValueError(f"arms must be a list of labels, got {self.arms!r}.")
        object.__setattr__(self, "arms", tuple(self.arms))
        if len(self.arms) < 2 or len(set(self.arms)) < len(self.arms):
            raise ValueError(f"arms must be at least two different labels, got {list(self.arms)}.")
        if isinstance(self.control, list | tuple):  # one in a list is one
            object.__setattr__(self, "control", self.control[0] if len(self.control) == 1 else tuple(self.control))
        for name in ("metric", "split"):
            value = getattr(self, name)
            if not (value is None or (isinstance(value, str) and value)):
                raise ValueError(f"{name} must be text, or left out, got {value!r}.")
        for name in ("rule", "note"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be text, got {getattr(self, name)!r}.")
        named = [arm for arm in self.arms if arm in self.controls]
        if len(named) < len(self.controls) or self.control == () or len(named) == len(self.arms):
            several = "" if isinstance(self.control, str) else " Several must differ, and leave an arm to compare."
            raise ValueError(f"control must be one of the arms {', '.join(self.arms)}, got {self.control!r}.{several}")
        # as floats: 1 and 1.0 are one plan
        object.__setattr__(self, "level", check_level(self.level))
        if self.margin is not None:
            object.__setattr__(self, "margin", check_margin(self.margin))
        check_fields(self, last=1, seeds=2)
        value = self.estimand
        models = dict(value) if isinstance(value, Mapping) else {} if value is None else {self.arms[0]: value}
        if not all(isinstance(name, str) and name for name in models.values()):
            raise ValueError(f"estimand must be a model's name, or one for each arm, got {value!r}.")
        if unknown := [arm for arm in models if arm not in self.arms]:
            raise ValueError(f"estimand names {unknown[0]!r}, which is none of the arms {', '.join(self.arms)}.")
        if isinstance(value, Mapping):
            object.__setattr__(self, "estimand", models)

    @property
    def controls(self) -> tuple[str, ...]:
        """The arms that the others are compared with; none for all pairs."""
        return self.control if isinstance(self.control, tuple) else () if self.control is None else (self.control,)

    @property
    def digest(self) -> str:
        """The sha256 of the plan's content, 64 hexadecimal digits: order of keys, layout and comments do not count."""
        content = json.dumps(self._table(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    @classmethod
    def read(cls, path: str | Path) -> AnalysisPlan:
        """Read a plan from a TOML file, whose keys are the parameters.

        Raises
        ------
        ValueError
            If the file is no TOML, or a key is unknown, missing or out of range; the file and the key are named.
        """
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is no TOML: {error}.") from None
        known = [field.name for field in fields(cls)]
        with naming(path):
            if unknown := [key for key in table if key not in known]:
                near = meant(unknown[0], known)
                raise ValueError(f"a plan has no key {unknown[0]!r}{near}; it has {', '.join(known)}.")
            if "arms" not in table:
                raise ValueError('arms is missing; name what is compared, such as arms = ["FedAvg", "Ditto"].')
            if not isinstance(table["arms"], list):
                raise ValueError(f"arms must be a list of labels, got {table['arms']!r}.")
            return cls(**table)

    def write(self, path: str | Path) -> None:
        """Write a TOML file that `read` reads, whole or not at all."""
        write_text(path, tomli_w.dumps(self._table()))

    def _table(self) -> dict[str, Any]:
        """Return the content in plain values, without what is left open."""
        return {name: value for name, value in vars(self).items() if value is not None}
