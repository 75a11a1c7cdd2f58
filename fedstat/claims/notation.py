"""Write a statement in Typst mathematics as plain text, for terminals."""

from __future__ import annotations

import re
import unicodedata
from collections import deque

_GREEK = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
]  # fmt: skip
_LETTERS = dict(zip(_GREEK, "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
_SYMBOLS = {
    **_LETTERS,
    **{name.capitalize(): letter.upper() for name, letter in _LETTERS.items()},
    "quad": " ", "dot": "·", "dot.op": "·", "times": "×", "times.o": "⊗", "in": "∈", "in.not": "∉", "forall": "∀",
    "exists": "∃", "emptyset": "∅", "partial": "∂", "nabla": "∇", "top": "ᵀ", "dots": "…", "approx": "≈", "prop": "∝",
    "infinity": "∞", "perp": "⊥", "chevron.l": "⟨", "chevron.r": "⟩", "succ.eq": "≽", "prec.eq": "≼", "subset": "⊂",
    "inter": "∩", "inter.big": "⋂", "union": "∪", "parallel": "∥", "parallel.not": "∦", "plus.minus": "±", "sum": "∑",
    "product": "∏", "thick": " ", "ell": "ℓ", "bb": "", "cal": "", "op": "",
    "RR": "ℝ", "EE": "E", "NN": "ℕ", "med": " ", "compose": "∘", "tilde": "∼", "cases": "", "vec": "",
}  # fmt: skip
_SIGNS = {
    "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "=>": "⇒", "==>": "⇒", "<==": "⇐", "<=>": "⇔", "<==>": "⇔",
    "<<": "≪", ">>": "≫", "-": "−", "*": "∗", "\\": "", "&": "",
}  # fmt: skip
#: What stands before and after the argument of a function.
_AROUND = {"norm": ("‖", "‖"), "abs": ("|", "|"), "sqrt": ("√(", ")"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
#: Accents, written after the letter.
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "macron": "\u0304", "overline": "\u0304", "dot": "\u0307"}
_POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

_TOKEN = re.compile(
    r'"[^"]*"|[A-Za-z]+(?:\.[a-z]+)*|\d+(?:\.\d+)?|<==>|<==|==>|<=>|<=|>=|!=|->|<-|=>|<<|>>|\s+|.', re.DOTALL
)


def plain(statement: str) -> str:
    """Return a statement in Typst mathematics as text: letters and signs for their names, quotes left out.

    Examples
    --------
    >>> from fedstat.claims import plain
    >>> print(plain("norm(w^t - w^*)^2 <= (1 - mu eta)^t norm(w^0 - w^*)^2"))
    ‖w^t − w^∗‖² ≤ (1 − μ η)^t ‖w⁰ − w^∗‖²
    """
    text = _written(deque(_TOKEN.findall(statement))).replace("^(−1)", "^-1")
    text = re.sub(r"\^(-?\d+)(?![\d/])", lambda power: power[1].translate(_POWERS), text)
    return " ".join(unicodedata.normalize("NFC", re.sub(r"\^(ᵀ|T\b)", "ᵀ", text)).split())


def _written(tokens: deque[str], until: str = "") -> str:
    """Write tokens up to a closing bracket, and take them away."""
    text = ""
    while tokens and (token := tokens.popleft()) != until:
        if token.startswith('"'):
            text += token[1:-1]
        elif token in (*_AROUND, *_ACCENTS, "bb", "cal", "op") and tokens and tokens[0] == "(":
            tokens.popleft()
            before, after = _AROUND.get(token, ("", _ACCENTS.get(token, "")))
            text += before + _written(tokens, ")") + after
        elif token == "(":
            text += f"({_written(tokens, ')')})"
        else:
            text += _SYMBOLS.get(token, _SIGNS.get(token, token))
    return text
