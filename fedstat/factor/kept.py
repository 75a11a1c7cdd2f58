"""Files of a saved run that are analysed on their own: each is checked against what the run says of it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np

from fedstat._files import sha256

_INDEX, _MANIFEST = "index.json", "manifest.json"


def check_listed(path: Path) -> None:
    """Refuse a file of a saved run that is not the one that the run wrote; others have nothing to be held against.

    The manifest beside the file lists its SHA-256; of a row that a client keeps, the name is a hash.
    """
    if re.fullmatch("[0-9a-f]{40}", path.stem) and (index := path.with_name(_INDEX)).is_file():
        check_row(index, path.stem)
        return
    run = path.parents[2] if path.name == _INDEX and len(path.parents) > 2 else path.parent
    try:
        sums = dict(json.loads((run / _MANIFEST).read_bytes())["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # no run, or another program's file of that name
    expected = sums.get(path.relative_to(run).as_posix())
    if expected not in (None, sha256(path)):
        raise ValueError(f"{path} is damaged: it is not the file that {run / _MANIFEST} lists.")


def check_row(index: Path, version: str) -> None:
    """Refuse the file of a client's row whose content is not what its name, a hash, promises."""
    from safetensors.numpy import load_file

    file = index.with_name(f"{version}.safetensors")
    try:
        content = json.loads(index.read_bytes())
        layout = {"shapes": content["shapes"], "dtype": content["dtype"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{index} is no index of the clients of a saved run: {error!r}.") from None
    try:
        row = load_file(file)
        digest = hashlib.blake2b(json.dumps(layout).encode(), digest_size=20)
        for name in layout["shapes"]:
            digest.update(np.ascontiguousarray(row[name]).tobytes())
    except Exception as error:  # any bytes may lie there
        raise ValueError(f"{file} is damaged: {error!r}.") from None
    if digest.hexdigest() != version:
        raise ValueError(f"{file} is damaged: its content is not what its name, a hash, promises.")
