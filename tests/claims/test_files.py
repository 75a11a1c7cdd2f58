"""Anybody's claims: those that files declare, judged by the command, and what cannot be judged, in words."""

import json
import sys

import pytest
from typer.testing import CliRunner

from fedstat.claims import ClaimError, judge_all, read_claims
from fedstat.cli import app

FILE = """
from fedstat.claims import Claim, enumeration
from limits import LIMIT

SQUARES = Claim(
    id="{id}", place="line 1", said_by="paper", severity="false", words="Squares exceed their roots.",
    statement="n^2 > n", sensitivity="any n",
)


@SQUARES.reading("whole numbers")
def whole():
    return enumeration(range(2, LIMIT), lambda n: n * n > n, of="numbers")
"""
MUTANT = """

@SQUARES.mutant("n^2 / 2")
def half():
    return enumeration(range(2, LIMIT), lambda n: n * n / 2 > n, of="numbers")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a claim file and what it imports; forget its modules afterwards."""
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "limits.py").write_text("LIMIT = 9\n")
    (tmp_path / "squares.py").write_text(FILE.format(id="SQ-1") + MUTANT)
    yield tmp_path
    for name in ("limits", "squares", "cubes", "other"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("n != 3", r"SQ-0: it came out refuted and has no control; add .* What refutes it: n = 3"),
        ("1 / (n - 3) < 1", r"SQ-0: its reading 'all' raised ZeroDivisionError in line 5: division by zero"),
        ("exit(3)", r"SQ-0: its reading 'all' raised SystemExit in line 5: 3"),
    ],
)
def test_a_claim_that_cannot_be_judged_leaves_the_verdicts_of_others(folder, right, wrong):
    (folder / "other.py").write_text(
        "from fedstat.claims import Claim, enumeration\n"
        'C = Claim(id="SQ-0", place="a", said_by="paper", severity="false", words="b.",'
        ' statement="c", sensitivity="d")\n@C.reading("all")\n'
        "def letter():\n"
        f'    return enumeration(range(5), lambda n: {right}, of="numbers", show=lambda n: f"n = {{n}}")\n'
    )
    with pytest.raises(ClaimError, match=wrong) as error:
        judge_all(folder)
    assert [j.claim.id for j in error.value.judged] == ["SQ-1"]
    done = CliRunner().invoke(app, ["judge", str(folder)])
    assert done.exit_code == 1
    assert "SQ-1" in done.stdout
    assert "SQ-0: it" in done.stderr


def test_any_folder_is_judged(folder):
    (judgement,) = judge_all(folder)
    assert (judgement.verdict, judgement.claim.paper) == ("holds", "")
    printed = CliRunner().invoke(app, ["judge", str(folder), "SQ-1"])
    assert printed.exit_code == 0, printed.output
    assert "■ holds" in printed.output
    assert "n² > n" in printed.output
    assert "SQ-1, line 1\n" in printed.output
    assert r"\begin{remark}[line 1]" in CliRunner().invoke(app, ["judge", str(folder), "--latex"]).stdout
    as_json = json.loads(CliRunner().invoke(app, ["judge", str(folder / "squares.py"), "--json"]).stdout)
    assert [entry["mutants"] for entry in as_json] == [{"n^2 / 2": "false for 1 of 7 numbers"}]


def test_where_the_paper_is_read_is_told_everywhere(folder):
    with (folder / "squares.py").open("a") as file:
        file.write("\nSQUARES.link = 'https://doi.org/10.1/squares_1'\n")
    for shown in ("SQ-1", "--json"):
        assert "https://doi.org/10.1/squares_1" in CliRunner().invoke(app, ["judge", str(folder), shown]).stdout
    assert r"https://doi.org/10.1/squares\_1" in CliRunner().invoke(app, ["judge", str(folder), "--latex"]).stdout


@pytest.mark.parametrize(
    ("place", "link"),
    [
        ("Roy (ICLR 2021, arXiv:2102.07623), Corollary 4.6", "https://arxiv.org/abs/2102.07623"),
        ("Lemma 1, equation (4), doi:10.48550/arXiv.1909.04715", "https://doi.org/10.48550/arXiv.1909.04715"),
        ("folklore", ""),
    ],
)
def test_a_place_that_names_a_number_has_a_link(folder, place, link):
    (folder / "squares.py").write_text(FILE.format(id="SQ-1").replace("line 1", place))
    assert read_claims(folder)["SQ-1"].link == link


def refused(folder, *arguments):
    printed = CliRunner().invoke(app, ["judge", str(folder), *arguments])
    assert printed.exit_code == 1
    assert "Traceback" not in printed.output
    return printed.stderr


def test_a_file_that_cannot_be_judged_is_named_with_its_field(folder):
    assert f"{folder} has no claim SQ-7; there are SQ-1" in refused(folder, "SQ-7")
    (folder / "squares.py").write_text(FILE.format(id="SQ-1"))
    sys.modules.pop("squares")
    assert f"{folder / 'squares.py'}: SQ-1: nothing shows that its check can fail" in refused(folder / "squares.py")
    (folder / "other.py").write_text(FILE.format(id="SQ-0").split("@")[0])
    assert f"{folder / 'other.py'}: SQ-0: it has no reading; add a check" in refused(folder / "other.py")


def test_two_files_with_one_id_are_named(folder):
    (folder / "cubes.py").write_text(FILE.format(id="SQ-1") + MUTANT)
    message = refused(folder)
    assert f"{folder / 'squares.py'}: the id SQ-1 is taken by {folder / 'cubes.py'}" in message


def test_a_claim_is_found_where_it_was_made(folder):
    """Its checks and the function that makes it may lie in a neighbour, and it may have no name of its own."""
    (folder / "limits.py").write_text(
        FILE.replace("from limits import LIMIT", "LIMIT = 9").format(id="SQ-0")
        + "\n\ndef made(name):\n    return Claim(id=name, place='a', said_by='paper', severity='false', words='b.',"
        + " statement='c', sensitivity='d')\n"
    )
    (folder / "other.py").write_text(
        "from functools import partial\nfrom limits import SQUARES, made, whole\n"
        "A = made('B-1')\nA.reading('imported')(whole)\n"
        "MORE = [made('B-2'), SQUARES], {'key': made('B-3')}\n(LIST, DICT) = MORE\n"
        "for one in (LIST[0], DICT['key']):\n    one.reading('partial')(partial(whole))\n"
        "del one\n"
    )
    assert list(read_claims(folder / "other.py")) == ["B-1", "B-2", "B-3"]
    assert list(read_claims(folder)) == ["B-1", "B-2", "B-3", "SQ-0", "SQ-1"]


def test_a_file_that_does_not_run_is_named(folder):
    (folder / "cubes.py").write_text("import nothing_of_that_name\n")
    assert f"{folder / 'cubes.py'} cannot be run: ModuleNotFoundError" in refused(folder)
    (folder / "cubes.py").write_text("raise SystemExit(0)\n")  # and is no success
    assert f"{folder / 'cubes.py'} cannot be run: SystemExit: 0." in refused(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"severity": "grave"}, "severity must be one of misprint, unstated condition, false, got 'grave'"),
        ({"place": " "}, "place must be a text, got ' '"),
        ({"link": "squares.org"}, "link must be an address that begins with https://, got 'squares.org'"),
        ({"corrected": "SQ-1c"}, "corrected names SQ-1c, which no file declares"),
        ({"corrected": "SQ-1"}, "corrected must name another claim, got 'SQ-1', its own id"),
        ({"assumptions": None}, "assumptions must be a text, which may be empty, got None"),
        ({"flaw": 5}, "flaw must be a text, which may be empty, got 5"),
        ({"paper": 7}, "paper must be a text, which may be empty, got 7"),
    ],
)
def test_a_wrong_field_is_named(folder, fields, words):
    text = FILE.format(id="SQ-1") + MUTANT + "".join(f"\nSQUARES.{k} = {v!r}\n" for k, v in fields.items())
    (folder / "squares.py").write_text(text)
    with pytest.raises(ClaimError, match="SQ-1: ") as error:
        read_claims(folder)
    assert words in str(error.value)
