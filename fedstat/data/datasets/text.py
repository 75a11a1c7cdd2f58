"""Next-character prediction as LEAF sets it up: 80 characters are the input, and the next one is the class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedstat.data.datasets.base import Dataset

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
WINDOW = 80
TEXT_BYTES = 1 << 24  # that a text may have: the windows take eighty times as much
_OTHER = len(ALPHABET) - 1  # LEAF looks unknown characters up at index -1, the last of the alphabet
_CODE = np.full(256, _OTHER, dtype=np.uint8)
_CODE[np.frombuffer(ALPHABET.encode("ascii"), np.uint8)] = np.arange(len(ALPHABET))


def encode(text: str) -> np.ndarray:
    """Return each character's place in `ALPHABET` as a byte, shape (len(text),)."""
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), "<u4")
    return _CODE[np.minimum(points, len(_CODE) - 1)]


def decode_text(raw: bytes, where: str | Path) -> str:
    """Return a file's text, which must be UTF-8, with line feeds only; errors blame the file `where`."""
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is no text in UTF-8: {error}.") from None


def windows(name: str, where: str | Path, roles: Mapping[str, list[str]]) -> Dataset:
    """Cut each role's lines, joined by blanks, into all windows of 80 characters that have a next one.

    Roles without a whole window have no samples. If there is no window at all, the error blames the file `where`.
    """
    texts = {role: encode(re.sub("  +", " ", " ".join([*lines, ""]))) for role, lines in roles.items()}
    texts = {role: text for role, text in texts.items() if len(text) > WINDOW}
    sizes = [len(text) - WINDOW for text in texts.values()]
    if not sizes:
        raise ValueError(f"{where} holds no role with more than {WINDOW} characters.")
    x = np.concatenate([np.lib.stride_tricks.sliding_window_view(text, WINDOW)[:-1] for text in texts.values()])
    y = np.concatenate([text[WINDOW:] for text in texts.values()], dtype=np.int64)
    # each entry points to a name; names in full would take as much memory as x
    role = np.repeat(np.array(list(texts), dtype=object), sizes)
    return Dataset(name, x, y, tuple(ALPHABET), np.zeros(len(y), dtype=bool), {"role": role}, vocabulary=len(ALPHABET))
