"""What the heads of a printed table say of its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

Spread = Literal["sd", "se", "ci", "none"]
SPREADS = get_args(Spread)[:3]
_SPREAD = (
    r"(?:(?P<se>s\.?e\.?|sem|stderr|(?:std|standard)\W*err\w*)|(?P<ci>(?:95\W*)?ci)|"
    r"(?P<sd>s\.?d\.?|stdev|(?:std|standard)\W*dev\w*|std)|±)"
)
#: A spread's name alone, or behind or before the name of its means.
_SPREAD_OF = (
    re.compile(rf"(?P<of>.*?)(?:^|[\s_/,(\[]+){_SPREAD}[\s.)\]]*", re.I),
    re.compile(rf"{_SPREAD}[\s_/.]+(?:of\s+)?(?P<of>.+)", re.I),
)
_COUNT = re.compile(r"\W*(?:n|seeds|runs|trials)\W*", re.I)
#: How a column of methods is called, the surest names first.
_METHODS = ("methods?", "algorithms?", "approach(?:es)?", "models?")
_DATA = re.compile(r"\b(?:data|data ?sets?|settings?|tasks?|metrics?)\b", re.I)
#: The columns of a list beside that of its means, and other names of them.
_LISTED = {"method", "sd", "se", "ci", "runs", "setting", "bold"}
_SYNONYMS = {"n": "runs", "seeds": "runs", "std": "sd", "dataset": "setting", "data": "setting"}


def list_columns(head: Sequence[str]) -> list[str] | None:
    """Return the columns of a list of means by our names; None of any other table.

    It has the columns method and mean; with one of spreads, a column of any name may hold the means.
    """
    names = [_SYNONYMS.get(name.lower(), name.lower()) for name in head]
    others = [name for name in names if name not in _LISTED]
    if "method" not in names or len(others) != 1 or len(set(names)) < len(names):
        return None
    if others != ["mean"] and not set(names) & set(SPREADS):
        return None
    return ["mean" if name in others else name for name in names]


def methods_column(heads: Sequence[str]) -> int | None:
    """Return the column whose head says that it names the methods."""
    return next((j for word in _METHODS for j, head in enumerate(heads) if re.fullmatch(word, head, re.I)), None)


def only_data(heads: Sequence[str]) -> bool:
    """Say whether heads of labels name data, and no methods."""
    text = " ".join(heads)
    return bool(_DATA.search(text)) and not re.search(rf"\b(?:{'|'.join(_METHODS)})\b", text, re.I)


def spread_columns(heads: Sequence[str], first: int) -> dict[int, tuple[int, str]]:
    """Return each column of means that has a column of spreads, as "acc" and "acc_sd", with that and what it holds.

    What it holds is one of `SPREADS`, or "" if its head does not say it. The columns before the first hold labels.
    """
    told = {j: _spread_of(heads[j]) for j in range(first, len(heads))}
    means = {_words(heads[j]): j for j, spread in told.items() if spread is None}
    found = {}
    for j, spread in told.items():
        if spread is None:
            check_scores(heads[j])
        elif (mean := means.get(_words(spread[0]))) is not None:
            found[mean] = (j, spread[1])
        else:
            raise _no_scores(heads[j])
    return found


def check_scores(name: str) -> None:
    """Refuse a column or a row that holds no scores, but what belongs to those beside it."""
    last = name.split(" / ")[-1]
    if _COUNT.fullmatch(last) or (_spread_of(last) or last)[0] == "":
        raise _no_scores(name)


def _spread_of(head: str) -> tuple[str, str] | None:
    """Return of which means a column holds the spread, by its head, and what it holds; None of other columns."""
    found = next(filter(None, (pattern.fullmatch(head) for pattern in _SPREAD_OF)), None)
    return found and (found["of"], next((kind for kind in SPREADS if found[kind]), ""))


def _words(head: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[\s_/,()\[\]]+", head.lower()) if word not in ("", "mean", "avg"))


def _no_scores(name: str) -> ValueError:
    return ValueError(
        f"column {name!r} holds no scores. What stands beside means goes into their cells, as 82.3 ± 0.4, or beside a "
        "column X into a column X sd, X se or X ci; or list the values in the columns method, mean, sd, se or ci, and "
        "runs."
    )
