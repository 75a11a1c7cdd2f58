"""Files that hold the SHA-256 of what else they hold, so that damage is noticed: text in a comment, the last line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SEAL = re.compile(rb"(?:# sha256 ([0-9a-f]{64})|<!-- sha256 ([0-9a-f]{64}) -->)\n\Z")
#: The key of a table's own checksum.
_OWN = "own sha256"


def seal(text: str, *, markup: bool = False) -> bytes:
    """Return a text with its seal, as the bytes of a file: a comment of TOML, or of XML for `markup`."""
    content = (text if text.endswith("\n") else f"{text}\n").encode()
    line = f"sha256 {hashlib.sha256(content).hexdigest()}"
    return content + (f"<!-- {line} -->\n" if markup else f"# {line}\n").encode()


def unseal(path: Path) -> str:
    """Read what `seal` made, without the seal; a file that was changed since is a ValueError."""
    content = path.read_bytes()
    found = _SEAL.search(content)
    body = content[: found.start()] if found else b""
    if found is None or hashlib.sha256(body).hexdigest().encode() not in found.groups():
        raise ValueError(
            f"{path} is damaged or was changed: its last line should hold the SHA-256 of the others. Put back what was "
            "there."
        )
    return body.decode()


def sealed(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table for JSON with its checksum."""
    return {**table, _OWN: hashlib.sha256(json.dumps(table).encode()).hexdigest()}


def unsealed(table: Any) -> dict[str, Any]:
    """Return what `sealed` was given; ValueError if it was changed since. Tables of fedstat 1.0.0 have no checksum."""
    rest = dict(table)
    if _OWN in rest and rest != sealed({name: value for name, value in rest.items() if name != _OWN}):
        raise ValueError("it is not what its own checksum says")
    rest.pop(_OWN, None)
    return rest
