"""How the site is made: ``python -m sphinx -j auto -W --keep-going docs build/docs``.

Every page's code is run anew, but for notebooks', and nothing that is built asks the network for anything: fonts are
the system's, formulas are MathML, and the search index lies beside the pages.
"""

import os
import sys
import tempfile
from functools import partialmethod
from pathlib import Path

import yaml
from nbclient import NotebookClient

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1])]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # pages are small, and several are made at once
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as in a kernel
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[1], os.environ.get("PYTHONPATH", "")]))  # for kernels
# Pages run in folders of their own, where what they write is thrown away; inside the clone, which some of them read.
tempfile.tempdir = str(Path(__file__).parents[1] / "build" / "pages")
Path(tempfile.tempdir).mkdir(parents=True, exist_ok=True)

import fedstat

project = "fedstat"
author = "The fedstat developers"
copyright = "the fedstat developers, BSD-3-Clause"
version = release = fedstat.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "api_pages",
    "trial_pages",
    "gallery_pages",
    "kernels",
    "faster",
]
exclude_patterns = ["_ext", "**/.ipynb_checkpoints"]
default_role = "py:obj"
smartquotes = False

# Pages with code
nb_execution_mode = "force"
nb_execution_excludepatterns = ["notebooks/*"]  # they hold what they show, and a test runs them
nb_execution_raise_on_error = False  # it is a warning, and -W says so of all pages at once
nb_execution_timeout = 180
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_merge_streams = True
# A command's output comes in pieces of 100 characters, which must be joined as they are.
NotebookClient.__init__ = partialmethod(NotebookClient.__init__, coalesce_streams=True)
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_block", "attrs_inline", "substitution"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# How to cite, from the one file that says it
_cited = yaml.safe_load((Path(__file__).parents[1] / "CITATION.cff").read_text())
_fields = {
    "author": " and ".join("{" + one["name"] + "}" for one in _cited["authors"]),
    "title": "{" + _cited["title"] + "}",
    "year": _cited["date-released"].year,
    "version": _cited["version"],
}
_entry = "\n".join(["@software{fedstat,", *(f"  {key} = {{{value}}}," for key, value in _fields.items()), "}"])
myst_substitutions = {"citation": f"{_cited['message']}\n\n```bibtex\n{_entry}\n```"}

# Docstrings
autodoc_typehints = "none"  # types stand in the docstrings, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"fedstat {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["trial.js"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"
