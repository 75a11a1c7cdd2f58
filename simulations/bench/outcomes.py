"""Where an arm came out beside its controls, in words that chapter and method chooser share."""

from __future__ import annotations

#: The kinds of control, in the order in which words name them.
CONTROLS = ("Local", "FedAvg")
#: The word for an arm whose intervals all cover zero.
NOT_RESOLVED = "not resolved"


def outcome(signs: dict[str, int]) -> str:
    """Say in words where an arm lies, from the sign of each control's interval (1 above, -1 below, 0 covers zero).

    One of "above both", "above Local", "above FedAvg", "below both", "below Local", "below FedAvg", "above Local,
    below FedAvg", "above FedAvg, below Local" and "not resolved". A control that is not among `signs` (an arm is not
    compared with itself) says nothing.
    """
    above = [control for control in CONTROLS if signs.get(control, 0) > 0]
    below = [control for control in CONTROLS if signs.get(control, 0) < 0]
    parts = [
        f"{word} {'both' if len(names) == len(CONTROLS) else names[0]}"
        for word, names in (("above", above), ("below", below))
        if names
    ]
    return ", ".join(parts) or NOT_RESOLVED
