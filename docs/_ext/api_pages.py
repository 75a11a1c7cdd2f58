"""A page for every public name, grouped by package, from the docstrings."""

from __future__ import annotations

import inspect
import pprint
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

from pages import write_pages
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import fedstat

#: The packages in the order in which a reader meets them.
PACKAGES = (
    "federated", "methods", "models", "data", "parameterization", "inference", "report", "testing", "experiment",
    "claims", "factor", "ntk", "theory", "export", "privacy", "metrics", "schedules", "server", "aggregators",
    "attacks", "attendance", "compression", "mechanisms",
)  # fmt: skip


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "api", pages()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        module = getattr(fedstat, package)
        objects = public(module)
        for name, thing in objects.items():
            found[f"{package}.{name}.rst"] = _page(package, module, name, thing)
        found[f"{package}.rst"] = _package(package, module, objects)
    found["index.rst"] = _index()
    return found


def public(module: ModuleType) -> dict[str, Any]:
    """Return a package's public names and what they stand for; methods are found by their files, as users find them."""
    if module is fedstat.methods:
        names = dir(module)
    else:
        names = getattr(module, "__all__", None) or [
            name
            for name, thing in vars(module).items()
            if getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_")
        ]
    return {name: getattr(module, name) for name in sorted(names, key=str.lower)}


def summary(thing: Any) -> str:
    """Return the first sentence of a docstring, on one line."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def remark(module: ModuleType, name: str) -> str:
    """Return what the comment above a constant says, on one line."""
    for own in [one for path, one in sys.modules.items() if path.startswith(f"{module.__name__}.")]:
        if (
            own
            and name in vars(own)
            and (found := ModuleAnalyzer.for_module(own.__name__).find_attr_docs().get(("", name)))
        ):
            return " ".join(" ".join(found).split())
    return ""


def _page(package: str, module: ModuleType, name: str, thing: Any) -> str:
    where = f"fedstat.{package}"
    lines = [":orphan:", "", _title(f"{where}.{name}"), f":doc:`{where} <{package}>`", ""]
    if isinstance(thing, ModuleType):
        lines += [f".. automodule:: {thing.__name__}", "   :members:", "   :no-index:"]
    elif inspect.isclass(thing):
        lines += [f".. autoclass:: {module.__name__}::{name}", "   :members:"]
    elif _is_function(thing):
        lines += [f".. autofunction:: {module.__name__}::{name}"]
    else:
        lines += [f".. py:data:: {where}.{name}", "", f"   {remark(module, name)}", "", "   .. code-block:: python", ""]
        lines += [f"      {line}" for line in pprint.pformat(thing, width=100).splitlines()]
    return "\n".join([*lines, ""])


def _package(package: str, module: ModuleType, objects: dict[str, Any]) -> str:
    text = _title(f"fedstat.{package}") + f".. automodule:: {module.__name__}\n   :no-index:\n\n"
    kinds = {
        "Classes": {n: t for n, t in objects.items() if inspect.isclass(t)},
        "Functions": {n: t for n, t in objects.items() if _is_function(t)},
        "Others": {n: t for n, t in objects.items() if not (inspect.isclass(t) or _is_function(t))},
    }
    for kind, own in kinds.items():
        if own:
            text += f".. list-table:: {kind}\n   :widths: 30 70\n   :class: summary\n\n"
            for name, thing in own.items():
                text += f"   * - :doc:`{name} <{package}.{name}>`\n     - {_about(module, name, thing)}\n"
            text += "\n"
    return text


def _about(module: ModuleType, name: str, thing: Any) -> str:
    documented = inspect.isclass(thing) or _is_function(thing) or isinstance(thing, ModuleType)
    return summary(thing) if documented else remark(module, name)


def _is_function(thing: Any) -> bool:
    """Tell whether a name stands for a function; the alias of a type is callable, too."""
    return callable(thing) and not inspect.isclass(thing) and get_origin(thing) is None


def _index() -> str:
    top = [name for name in fedstat.__all__ if name not in PACKAGES]
    text = _title("API") + (
        "Every public name has a page, made from its docstring. What stands here is stable as :doc:`/stable` says.\n\n"
        ".. list-table::\n   :widths: 30 70\n   :class: summary\n\n"
    )
    for package in PACKAGES:
        first = summary(getattr(fedstat, package))
        text += f"   * - :doc:`fedstat.{package} <{package}>`\n     - {first}\n"
    text += "\nAt the top level, as ``fedstat.NAME``, stand as well: " + ", ".join(map(_home, top)) + ".\n\n"
    return text + ".. toctree::\n   :hidden:\n\n" + "".join(f"   {package}\n" for package in PACKAGES)


def _home(name: str) -> str:
    """Return a link from a name at the top level to its page."""
    for package in PACKAGES:
        if public(getattr(fedstat, package)).get(name) is getattr(fedstat, name):
            return f":doc:`{name} <{package}.{name}>`"
    return f"``{name}``"


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n\n"
