"""The method on the contributing page, taken from the page."""

import re
from pathlib import Path

import pytest

import fedstat as fs
from fedstat.testing import check_method
from tests.support.runs import run, same


@pytest.fixture
def page(tmp_path):
    """The page's Python block in a file of one's own."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    return tmp_path / "mine.py"


def test_the_method_of_the_page_is_found_and_obeys_the_laws(page, examples):
    method = fs.methods.find(f"{page}:FedRidge")
    check_method(method(), examples=examples)
    assert "head.weight" in str(fs.describe(method(), fs.models.mlp(3, 5, 2)))
    assert len(page.read_text().strip().splitlines()) <= 35


def test_without_its_ridge_it_is_fedper(page):
    method = fs.methods.find(f"{page}:FedRidge")
    same(run(method(ridge=0.0)), run(fs.methods.FedPer()), atol=0)


def test_a_file_in_the_folder_of_methods_is_all_that_a_method_needs(page, monkeypatch):
    monkeypatch.setattr(fs.methods, "__path__", [*fs.methods.__path__, str(page.parent)])
    card = fs.methods.available()["FedRidge"]
    assert card.about == "A private head that is kept small, on a shared body."
    assert card.variants == ()  # nobody has measured it
    assert "FedRidge" in repr(fs.methods.available())
    assert fs.methods.FedRidge().ridge == 0.1


def test_what_is_no_method_is_refused(tmp_path):
    (tmp_path / "other.py").write_text("class FedOdd: pass")
    for name, message in (
        ("FedNothing", "there is no method 'FedNothing'; built in are"),
        ("nowhere.py:FedOdd", "does not exist"),
        (f"{tmp_path / 'other.py'}:FedOdd", "defines no subclass of fedstat.Method called 'FedOdd'"),
    ):
        with pytest.raises(ValueError, match=message):
            fs.methods.find(name)
