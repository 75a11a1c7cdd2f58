"""Text files whose last line, a comment, holds the SHA-256 of the lines above it, so that damage is noticed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_SEAL = re.compile(rb"(?:# sha256 ([0-9a-f]{64})|<!-- sha256 ([0-9a-f]{64}) -->)\n\Z")


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
