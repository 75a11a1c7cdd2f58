"""Find claims: those that a Python file declares, or all files of a folder."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from fedstat.claims.claim import SEVERITIES, Claim, ClaimError, fault


def read_claims(path: str | Path) -> dict[str, Claim]:
    """Return the claims of a file, or of all files of a folder and its folders, by id and in its order.

    A claim is any `Claim` to which a file gives a name, alone or in a list, tuple or dict. A file may import its
    neighbours: by their names, or, inside a package, by the package's. Files whose names begin with ``test_`` or an
    underscore are left out.

    Parameters
    ----------
    path : str or Path
        A Python file, or a folder.

    Raises
    ------
    ClaimError
        If there is no such file, it is no Python file, cannot be run or declares no claim; if a field is not as
        it should be, or two claims have one id.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import read_claims
    >>> file = Path(tempfile.mkdtemp(), "example_doubling.py")
    >>> _ = file.write_text('''
    ... from fedstat.claims import Claim, Sides, compared
    ... POWERS = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    ... @POWERS.reading("n from 4 to 99")
    ... def letter():
    ...     return compared([Sides(f"n = {n}", n**2, 2**n) for n in range(4, 100)], of="numbers")
    ... ''')
    >>> read_claims(file)
    {'EX-01': <claim EX-01>}
    """
    path = Path(path)
    if not path.is_dir() and (path.suffix != ".py" or not path.exists()):
        why = "is no Python file" if path.exists() else "does not exist"
        raise ClaimError(f"{path} {why}; name a Python file with claims, or a folder of such files.")
    found: dict[str, Claim] = {}
    for file in _files(path):
        module = _run(file)
        for claim in _declared(module):
            if claim.id in found:
                raise ClaimError(f"{file}: the id {claim.id} is taken by {found[claim.id].file}; ids must differ.")
            claim.file = file
            package = sys.modules.get(module.__name__.rpartition(".")[0])
            claim.paper = claim.paper or getattr(package, "PAPER", "")
            claim.link = claim.link or _cited(claim.place) or getattr(package, "LINK", "")
            found[claim.id] = claim
    if not found:
        raise ClaimError(f"{path} declares no claim; a claim is a `fedstat.claims.Claim` with a name.")
    for claim in found.values():
        _check(claim, found)
    return dict(sorted(found.items()))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*.py")) if not file.name.startswith(("test_", "_", "conftest."))]


def _run(file: Path) -> ModuleType:
    """Import a file under the name that its neighbours import it by."""
    root, name = file.resolve().parent, file.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        loaded = sys.modules.get(name)
        if loaded is not None and Path(loaded.__file__ or "").resolve() != file.resolve():
            raise ClaimError(f"{file}: {loaded.__file__ or 'another module'} has the same name; rename one of them.")
        return importlib.import_module(name)
    except ClaimError:
        raise
    except (Exception, SystemExit) as error:
        raise ClaimError(f"{file} cannot be run: {type(error).__name__}: {str(error).rstrip('.')}.") from error


def _declared(module: ModuleType) -> list[Claim]:
    """Return the claims that a file declares itself, and not those that it imports."""
    held: list[object] = []
    for value in vars(module).values():
        held += value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    claims = {id(value): value for value in held if isinstance(value, Claim)}.values()
    return [claim for claim in claims if claim.module == module.__name__]


def _cited(place: object) -> str:
    """Return the address of the DOI or of the number at arXiv that a place names."""
    found = re.search(r"\bdoi:\s*(10\.[^\s,;)]+)|\barXiv:(\d+\.\d+)", str(place))
    if found is None:
        return ""
    return f"https://doi.org/{found[1].rstrip('.')}" if found[1] else f"https://arxiv.org/abs/{found[2]}"


def _check(claim: Claim, known: dict[str, Claim]) -> None:
    if claim.severity not in SEVERITIES:
        raise fault(claim, f"severity must be one of {', '.join(SEVERITIES)}, got {claim.severity!r}")
    for name in ("id", "place", "said_by", "words", "statement", "sensitivity"):
        if not isinstance(getattr(claim, name), str) or not getattr(claim, name).strip():
            raise fault(claim, f"{name} must be a text, got {getattr(claim, name)!r}")
    for name in ("assumptions", "flaw", "paper"):
        if not isinstance(getattr(claim, name), str):
            raise fault(claim, f"{name} must be a text, which may be empty, got {getattr(claim, name)!r}")
    if not isinstance(claim.link, str) or (claim.link and not claim.link.startswith("https://")):
        raise fault(claim, f"link must be an address that begins with https://, got {claim.link!r}")
    if claim.corrected == claim.id:
        raise fault(claim, f"corrected must name another claim, got {claim.corrected!r}, its own id")
    if claim.corrected is not None and claim.corrected not in known:
        raise fault(claim, f"corrected names {claim.corrected}, which no file declares")
