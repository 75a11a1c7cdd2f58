"""A claim's page: its formula, where it stands, and what a reader needs to judge it anew."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
DOCS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture(scope="module")
def trial():
    """Return the module that writes the pages, imported as the site imports it."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("trial_pages")
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def pages(trial):
    return trial.pages()


def written(trial, statement):
    (formula,) = trial.typeset([statement])
    return formula


def test_a_formula_wraps_before_relations_and_between_statements(trial):
    formula = written(trial, "norm(w - w^*)^2 <= (a + b) / 2, quad a + b + c = d")
    assert formula.count("<math") == 4
    assert formula.count('<mo form="infix">') == 2
    assert formula.count('class="wide"') == 1


def test_words_in_a_formula_are_text(trial):
    formula = written(trial, 'x > 0 " for all small" x')
    assert "</math><wbr> for all small <math" in formula


def test_no_sign_of_a_formula_is_lost(trial):
    statement = "alpha_k D'_k <= sum_(l != k) p_l / n, quad beta = 1/2"
    shown = re.sub(r"<[^>]*>|\s", "", written(trial, statement)).replace("&lt;", "<")
    assert shown == "𝛼𝑘𝐷𝑘′≤∑𝑙≠𝑘𝑝𝑙𝑛,𝛽=12"


def test_every_page_has_formula_verdict_place_and_digest(trial, pages):
    claims = trial.read_claims(trial.FOLDER)
    ledger = trial.read_ledger(trial.LEDGER)
    for name, claim in claims.items():
        page = pages[f"{name}.md"]
        assert "<math" in page
        assert f"Verdict: {ledger[name]['verdict']}" in page
        assert not claim.link or f"]({claim.link})" in page
        assert re.search(r"SHA-256 `[0-9a-f]{64}`", page)
        nearest = "the first is nearest the letter" in page
        assert nearest == (ledger[name]["verdict"] == "holds-in-a-reading" and len(claim.readings) > 1)


def test_the_index_has_every_claim_once_and_counts_the_papers_statements(trial, pages):
    claims, index = trial.read_claims(trial.FOLDER), pages["index.md"]
    assert sorted(re.findall(r"\* - \[([A-Z]{2}-\d\dc?)\]", index)) == sorted(claims)
    counted = re.findall(r"^\* - .*\n  - (\d+)$", index.split("## ")[0], re.MULTILINE)
    corrected = {claim.corrected for claim in claims.values()} - {None}
    assert sum(map(int, counted)) == len(claims) - len(corrected)


def test_a_title_names_paper_and_place_and_says_something_of_its_own(trial):
    claims = trial.read_claims(trial.FOLDER)
    every = trial.Trial(claims, {}, {})
    titles = {name: trial._title(claim, every) for name, claim in claims.items()}
    assert [titles[name] for name in ("FS-09", "FS-10", "FS-10c", "CL-33")] == [
        "FedSplit/FedFac, Theorem 1: the rate holds for summed gradients",
        "FedSplit/FedFac, Theorem 1: the rate fails for gradients of the mean loss",
        "FedSplit/FedFac, Theorem 1, corrected: the rate for gradients of the mean loss",
        "Folklore: steps on batches can make a fine-tuned model worse on its own data",
    ]
    said = {name: title.partition(": ")[2] for name, title in titles.items()}
    for name, title in titles.items():
        assert title.lower().startswith(trial._source(claims[name], every).lower())
        assert len(title) <= 95, title
        assert re.sub(r"\W", "_", said[name].lower()) != claims[name].file.stem.partition("_")[2]
        assert len(said[name].split()) > 2, title
    assert len(set(titles.values())) == len(set(said.values())) == len(claims)


def test_a_claim_without_a_title_is_named_with_its_file(trial, tmp_path):
    claim = trial.Claim(
        id="EX-01", place="p", said_by="paper", words="w", statement="x", severity="false", sensitivity="s", paper="P"
    )
    claim.file = tmp_path / "ex01.py"
    claim.file.write_text('"""A docstring, EX-01: not at the beginning of a line."""\n')
    with pytest.raises(ValueError, match=r"ex01\.py: its docstring must have a line 'EX-01: what is"):
        trial._title(claim, trial.Trial({"EX-01": claim}, {}, {}))


def test_a_place_links_its_number_once_and_folklore_is_not_said_twice(trial, pages):
    place = re.search(r"^> \w.*\n>\n> (.*)$", pages["CL-85.md"], re.MULTILINE)[1].replace("\\", "")
    assert place.endswith("may be corrupted; [doi:10.1214/aos/1176347978](https://doi.org/10.1214/aos/1176347978)")
    for name, claim in trial.read_claims(trial.FOLDER).items():
        assert pages[f"{name}.md"].count(f"]({claim.link})") == bool(claim.link)


def test_an_ambiguous_verdict_says_that_readings_differ(trial, pages):
    ledger = trial.read_ledger(trial.LEDGER)
    differ = {name for name in ledger if "none is nearest the letter" in pages[f"{name}.md"]}
    assert differ == {name for name, judged in ledger.items() if judged["verdict"] == "ambiguous"}


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("McMahan, Moore and Agüera y Arcas (2017), section 2", "McMahan, Moore et al. 2017"),
        ("Li, Jiang and Dou, FedBN (ICLR 2021, arXiv:2102.07623), Corollary 4.6", "Li, Jiang et al. 2021"),
        ("Krogh and Vedelsby, Ensembles (NIPS 7, 1995), as quoted", "Krogh and Vedelsby 1995"),
        ("Shamir, How to share a secret (1979)", "Shamir 1979"),
        ("remark on Pathak and Wainwright (2020), abstract", "Pathak and Wainwright 2020"),
        ("our wording of Karimireddy, Kale and Mohri, SCAFFOLD (ICML 2020)", "Karimireddy, Kale et al. 2020"),
        ("folklore of federated learning", "folklore"),
    ],
)
def test_papers_of_the_literature_are_named_by_authors_and_year(trial, place, source):
    claim = trial.Claim(
        id="EX-01", place=place, said_by="paper", words="w", statement="x", severity="false", sensitivity="s"
    )
    claim.file = trial.LITERATURE / "ex01.py"
    assert trial._source(claim, trial.Trial({"EX-01": claim}, {}, {})) == source
