"""Every public name has an example in its docstring, and the examples print what they say."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import tempfile

import pytest

import fedstat

MODULES = [m.name for m in pkgutil.walk_packages(fedstat.__path__, "fedstat.") if not m.name.startswith("fedstat.cli")]
PACKAGES = ["fedstat", *(f"fedstat.{m.name}" for m in pkgutil.iter_modules(fedstat.__path__) if m.name[0] != "_")]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public(package):
    module = importlib.import_module(package)
    named = {*getattr(module, "__all__", ()), *(fedstat.methods.available() if package == "fedstat.methods" else ())}
    found = {name: getattr(module, name) for name in sorted(named)}
    return {name: item for name, item in found.items() if not inspect.ismodule(item)}


def constant(item):
    return not (inspect.isclass(item) or inspect.isroutine(item))


def commented(module):
    """Names that a module assigns under a comment which the site shows."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and lines[node.lineno - 2].startswith("#:"):
            yield from map(ast.unparse, node.targets)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_has_an_example(package):
    bare = [n for n, item in public(package).items() if not constant(item) and ">>> " not in (item.__doc__ or "")]
    assert not bare, f"{package}: without an example: {bare}"


def test_public_constants_are_explained_where_they_are_defined():
    """Aliases and tables have no docstring of their own: a comment says what they are, what uses them shows them."""
    found = {name for package in PACKAGES for name, item in public(package).items() if constant(item)}
    assert "CIFAR100_DOMAINS" in found
    explained = {name for module in MODULES for name in commented(importlib.import_module(module))}
    assert not found - explained


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runner, said = doctest.DocTestRunner(optionflags=FLAGS), []
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
