"""Know code again: hash a module and all that it imports, followed through the imports.

Comments, docstrings and layout do not count, nor do imports for type checkers. Where a package loads its names lazily
by a stub (``__init__.pyi``), a name leads to the module that defines it and to no other.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Modules on the way that cannot change a number.
SILENT = (
    "fedstat._environment", "fedstat._files", "fedstat._memory", "fedstat._progress", "fedstat._tables",
    "fedstat._warnings", "simulations.contract", "simulations.source", "simulations.tables",
)  # fmt: skip
#: A module, and the names that are taken from it one after the other.
Chain = tuple[str, tuple[str, ...]]


def fingerprint(module: str, path: Path, packages: Mapping[str, Path]) -> str:
    """Hash a module and the modules of the given packages that it imports, directly or not.

    Parameters
    ----------
    module : str
        Its dotted name.
    path : Path
        Its file.
    packages : mapping of str to Path
        The folder of each package whose modules are followed.
    """
    hashes: dict[str, str] = {}
    waiting = [(module, path)]
    while waiting:
        name, file = waiting.pop()
        if name in hashes or name in SILENT:
            continue
        hashes[name], chains = _read(file.read_bytes(), name, file)
        for chain in chains:
            for reached in _reached(chain, packages):
                if found := _file(reached, packages):
                    waiting.append((reached, found))
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()


@functools.cache
def _read(content: bytes, name: str, file: Path) -> tuple[str, tuple[Chain, ...]]:
    """Return the hash of a module's code, and what it takes from others; studies share most modules."""
    tree = _Bare().visit(ast.parse(content))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(_chains(tree, name, file))


@functools.cache
def _told(content: bytes, package: str) -> Mapping[str, Chain]:
    """Return the names that a stub makes, with what they stand for."""
    return dict(_bindings(list(ast.walk(ast.parse(content))), package))


class _Bare(ast.NodeTransformer):
    """Remove docstrings, and what type checkers alone read."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if "TYPE_CHECKING" in ast.dump(node.test) else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *rest]:
                    node.body = rest
        return super().generic_visit(node)


def _file(module: str, packages: Mapping[str, Path]) -> Path | None:
    """Return a module's file; None if no package of ours holds it."""
    top, *rest = module.split(".")
    if top not in packages:
        return None
    base = packages[top].joinpath(*rest)
    files = (base / "__init__.py", base.with_suffix(".py"))
    return next((file for file in files if file.exists()), None)


def _chains(tree: ast.AST, module: str, file: Path) -> Iterator[Chain]:
    """Yield what a module takes from others: its imports, and attributes of what it imported."""
    nodes = list(ast.walk(tree))
    bound = dict(_bindings(nodes, module if file.name == "__init__.py" else module.rpartition(".")[0]))
    yield from bound.values()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            root, names = _attributes(node)
            if root in bound:
                taken_from, before = bound[root]
                yield taken_from, (*before, *names)
    if _loads_its_folder(nodes) and not file.with_suffix(".pyi").exists():
        for sibling in file.parent.glob("*.py"):
            yield f"{module}.{sibling.stem}", ()


def _bindings(nodes: Sequence[ast.AST], package: str) -> Iterator[tuple[str, Chain]]:
    """Yield the names that imports make, with what they stand for; relative imports start at `package`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, (alias.name, ())
                else:
                    top, *rest = alias.name.split(".")
                    yield alias.name, (alias.name, ())
                    yield top, (top, tuple(rest))
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield alias.asname or alias.name, (start, (alias.name,))


def _attributes(node: ast.Attribute) -> tuple[str, tuple[str, ...]]:
    """Return the name at the root of ``a.b.c``, and the attributes taken from it; "" if the root is no name."""
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.insert(0, inner.attr)
        inner = inner.value
    return (inner.id if isinstance(inner, ast.Name) else ""), tuple(names)


def _loads_its_folder(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "iter_modules" for node in nodes)


def _reached(chain: Chain, packages: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that taking names from a module runs: those above it, itself, and where a name leads."""
    module, names = chain
    parts = module.split(".")
    yield from (".".join(parts[: k + 1]) for k in range(len(parts)))
    file = _file(module, packages)
    if file is None or not names:
        return
    stub = file.with_suffix(".pyi")
    if stub.exists():
        told = _told(stub.read_bytes(), module).get(names[0])
        if told and told != (module, names[:1]):
            yield from _reached((told[0], (*told[1], *names[1:])), packages)
    if _file(f"{module}.{names[0]}", packages):
        yield from _reached((f"{module}.{names[0]}", names[1:]), packages)
