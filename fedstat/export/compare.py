"""What a server compares, so that no method runs that needs there what stays with its clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import torch

from fedstat.export.packet import Refused, check, pack, refusal
from fedstat.federated.client.network import Params
from fedstat.federated.method import Method
from fedstat.federated.state import State, Update


def compare_starts(method: Method, known: State, state: State) -> None:
    """Refuse a method whose clients could not tell their own start: they have `known`, the server `state`."""
    if broken := different(known.server, state.server) or different(known.shared, state.shared):
        raise refusal(method, f"clients cannot tell the start of {broken!r} without the others' data")
    if further := [name for name in state.clients if name not in known.clients]:
        raise refusal(method, f"the server keeps {further[0]!r} of every client, which clients do not keep themselves")
    if known.clients.versions != state.clients.versions:
        raise refusal(method, "clients cannot tell their personal start without the others' data")


def compare_upload(method: Method, belief: State, update: Update, came: Mapping[str, np.ndarray]) -> None:
    """Refuse a reply that is not the method's message of what it says."""
    try:
        due = pack(method.upload(belief, update), 0, method)
    except Refused:
        raise
    except Exception as error:  # any arrays may have come
        raise Refused(f"its arrays do not make {type(method).__name__}'s message: {error!r}.") from None
    if due.keys() != came.keys():
        raise Refused(f"it must send {sorted(due)}, it sent {sorted(came)}.")
    for name, array in due.items():
        check(name, came[name], array.shape, array.dtype)
        if not np.array_equal(array, came[name]):
            raise refusal(method, f"what clients send as {name!r} is not what they trained")


def compare_rows(method: Method, before: State, after: State, update: Update) -> None:
    """Refuse a server's step that would change what clients keep."""
    kept = after.clients.rows(update.ids)
    if broken := different(kept, {name: update.end[name] for name in kept}):
        raise refusal(method, f"its server changes {broken!r}, which clients keep")
    absent = np.setdiff1d(np.arange(after.clients.clients), update.ids.numpy())
    if len(absent):
        old, new = before.clients.versions, after.clients.versions
        if any(old[k] != new[k] for k in absent.tolist()):
            raise refusal(method, "its server changes what absent clients keep")


def different(one: Params, other: Params) -> str | None:
    """Return the first name that two sets of tensors do not both have with the same values, if there is one."""
    names: Collection[str] = dict.fromkeys([*one, *other])
    return next((n for n in names if n not in one or n not in other or not torch.equal(one[n], other[n])), None)
