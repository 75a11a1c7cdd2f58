"""What makes the site faster to build and changes none of its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import BaseLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.environment import BuildEnvironment


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    _keep_template()
    app.connect("env-before-read-docs", _spread)
    app.connect("write-started", _write_on_all_cores)
    app.connect("html-page-context", _share_navigation, priority=100)  # before the theme asks for it
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _keep_template() -> None:
    """Let numpydoc compile its template once, not for every docstring."""
    kept: list[SandboxedEnvironment] = []

    def environment(loader: BaseLoader) -> SandboxedEnvironment:
        if not kept:
            kept.append(SandboxedEnvironment(loader=loader))
        return kept[0]

    docscrape_sphinx.SandboxedEnvironment = environment


def _spread(app: Sphinx, env: BuildEnvironment, pages: list[str]) -> None:
    """Spread the pages with code evenly over all, since Sphinx reads neighbours one after the other."""
    slow = [page for page in pages if "{code-cell}" in Path(env.doc2path(page)).read_text()]
    others = sorted(set(pages) - set(slow))
    for k, page in enumerate(slow):
        others.insert(k * len(pages) // len(slow), page)
    pages[:] = others


def _write_on_all_cores(app: Sphinx, builder: Builder) -> None:
    """Start a writer for every core; Sphinx leaves one core to its main process, which mostly waits for the writers."""
    if builder.parallel_ok:
        app.parallel += 1


_navigation: dict[tuple[Any, ...], str] = {}


def _share_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Make the navigation once for all pages of a folder that no table of contents holds, since theirs is the same."""
    if "toctree" not in context or any(page in held for held in app.env.toctree_includes.values()):
        return
    toctree = context["toctree"]

    def shared(**how: Any) -> str:
        key = (page.rpartition("/")[0], *how.items())
        if key not in _navigation:
            _navigation[key] = toctree(**how)
        return _navigation[key]

    context["toctree"] = shared
