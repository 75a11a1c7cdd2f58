"""Write generated pages: text made safe for Markdown, files touched only if they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>$~^\"'&=:])")


def escaped(text: str, *, strip: bool = True) -> str:
    """Return plain text as Markdown that shows it as it is, on one line."""
    shown = re.sub(r"\s+", " ", text)
    return _SPECIAL.sub(r"\\\1", shown.strip() if strip else shown)


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Make the folder's pages these and no others; a page that stays the same is not written."""
    folder.mkdir(exist_ok=True)
    for old in [*folder.glob("*.md"), *folder.glob("*.rst")]:
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
