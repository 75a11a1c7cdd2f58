"""What fingerprints tell: whether runs can be compared, and by which design their seeds belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import pandas as pd

from fedstat._checks import choice
from fedstat._in_words import attacked, part
from fedstat.inference.formatting import listed
from fedstat.inference.intervals.design import Design, overlap_ratio

#: In what runs may differ where ``across`` names it.
ACROSS = ("data", "participants", "rounds")
_SAMPLES = {
    "train": "training samples",
    "validation": "validation samples",
    "test": "test samples",
    "common": "common test samples",
    "names": "names of clients",
}
#: Settings that may differ, and are said.
_SETTINGS = ("model", "training", "dtype")


def check_across(across: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names in which runs may differ; refuse one that is not known."""
    wanted = (across,) if isinstance(across, str) else tuple(across)
    for name in wanted:
        choice("across", name, ACROSS)
    return wanted


def check_same(configs: Mapping[str, Mapping[str, Any]], across: Sequence[str]) -> list[str]:
    """Compare the fingerprints of runs, two by two, and say in sentences in what they differ.

    The configurations are by the run's name. A difference in data or participants that `across` does not allow is
    refused.
    """
    said = []
    for (one, first), (other, second) in combinations(configs.items(), 2):
        for name, words in (("data", _data(first, second)), ("participants", _participants(first, second))):
            if words and name not in across:
                raise ValueError(
                    f"{one} and {other} cannot be compared: {words}. Compare runs on the same {name}, or name the "
                    f'difference with across="{name}".'
                )
            if words:
                shared = "the number of their seed alone" if _data(first, second) else "data, and not who takes part"
                said.append(f"{one} and {other} differ on purpose: {words}; pairs share {shared}.")
        varied = [", ".join(config.get("vary", ())) for config in (first, second)]
        if varied[0] != varied[1]:
            said.append(f"{one} and {other} vary other sources over seeds ({varied[0]}; {varied[1]}).")
        if words := settings_apart(first, second):
            said.append(f"{one} and {other} differ in {words}.")
    return said


def told_design(configs: Mapping[str, Mapping[str, Any]], clients: pd.DataFrame | None) -> Design | None:
    """Read the design from the fingerprints of runs and the samples of each client; None if they do not tell it.

    The same samples for each client under all seeds are fixed data. If the training samples of all clients together are
    the same, they are dealt anew; if those of all splits together are, or seeds have some in common, also split anew.
    """
    prints: dict[str, Any] = {}
    told = {*_SAMPLES, "pool", "train_pool"}
    if any(config.get("attack") for config in configs.values()):
        told = (told - {"train"}) | {"held"}  # attackers may train on other labels of the same samples
    for config in configs.values():
        for seed, of in config.get("fingerprint", {}).items():
            if any(prints.setdefault(seed, of).get(part) != of.get(part) for part in told):
                return None
    if len(prints) < 2 or not all("pool" in of for of in prints.values()):
        return None

    def same(*parts: str) -> bool:
        return len({tuple(of.get(part) for part in parts) for of in prints.values()}) == 1

    if same("train", "validation", "test", "names"):
        return Design(clients="same", data="fixed")
    held = [name for name in ("train", "validation", "test") if clients is not None and name in clients]
    common = 1.0 if same("pool") else _in_common([set(str(of.get("sketch", "")).split()) for of in prints.values()])
    if clients is None or not clients[held].to_numpy().sum() or not (same("train_pool") or common):
        return Design(clients="new", data="drawn")
    whose: Literal["same", "new"] = "same" if same("names", "held") else "new"
    test = clients["test"].sum() if "test" in clients else 0
    if same("train_pool") or not test:
        return Design(clients=whose, data="fixed")
    ratio = overlap_ratio(float(test), float(clients["train"].sum()), common)
    return Design(clients=whose, data="resplit", test_to_train=ratio)


def _in_common(sketches: Sequence[set[str]]) -> float:
    """Estimate the share of its samples that a seed has in common with another, mean over pairs of seeds."""
    # of the smallest hashes of two sets together those in both are a sample of their union
    found = []
    for one, other in combinations(sketches, 2):
        least = sorted(one | other)[: max(len(one), len(other))]
        both = sum(h in one and h in other for h in least) / max(len(least), 1)
        found.append(2 * both / (1 + both))
    return sum(found) / len(found)


def held_sources(configs: Mapping[str, Mapping[str, Any]]) -> str:
    """Say which sources of randomness besides the data were the same under every seed of some run; "" if none was."""
    held = dict[str, None]()
    for config in configs.values():
        if "vary" in config and len(config.get("seeds", ())) > 1:
            hidden = any(isinstance(of, Mapping) and of.get("mechanism") for of in config.get("methods", {}).values())
            possible = {
                "initial weights": "initial weights",
                **({} if config.get("participation", 1.0) == 1.0 else {"participants": "participants"}),
                **({"attackers": "participants"} if attacked(config) else {}),
                **({"the noise of mechanisms": "participants"} if hidden else {}),
                "batches": "batches",
            }
            held |= dict.fromkeys(what for what, source in possible.items() if source not in config["vary"])
    if not held:
        return ""
    names = listed(held)
    return f"{names[0].upper()}{names[1:]} were the same under every seed: it does not speak of others."


def _data(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Say which samples or clients of common seeds differ."""
    prints, others = (dict(config.get("fingerprint", {})) for config in (first, second))
    common = [seed for seed in prints if seed in others]
    found, apart = [], _attacks_apart(first, second)
    for split, what in _SAMPLES.items():
        # attackers may train on other labels of the same samples
        of = "held" if split == "train" and apart and all("held" in prints[seed] for seed in common) else split
        if seeds := [seed for seed in common if prints[seed].get(of) != others[seed].get(of)]:
            found.append(f"other {what} under seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}")
    return "; ".join(found)


def _participants(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    shares = [config.get("participation") for config in (first, second)]
    codes = [config.get("attendance_code") for config in (first, second)]
    if shares[0] != shares[1]:
        return f"participation {part(shares[0])} and {part(shares[1])}"
    return "" if codes[0] == codes[1] else f"clients in a round by other code of {part(shares[0])}"


def settings_apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Name the settings that differ, with both values."""
    there, here = ({k: v for name in _SETTINGS for k, v in _flat(config.get(name), name)} for config in (first, second))
    keys = [key for key in (there | here) if there.get(key) != here.get(key)]
    found = [f"{key} ({there.get(key, 'none')} and {here.get(key, 'none')})" for key in keys]
    return ", ".join([*found, *filter(None, [_attacks_apart(first, second)])])


def _attacks_apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Say how attacks differ; "" where they do not."""
    one, other = (dict(config.get("attack", {})) for config in (first, second))
    if one.get("what") != other.get("what"):
        return "attack (" + " and ".join(part(of["what"]) if of else "none" for of in (one, other)) + ")"
    return "" if one.get("code") == other.get("code") else f"the code of the attack {part(one['what'])}"


def _flat(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [pair for key, one in value.items() for pair in _flat(one, f"{name}.{key}")]
    return [(name, value)]
