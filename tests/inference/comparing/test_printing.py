"""What a comparison prints, in every form."""

import functools
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fedstat.inference.comparing.tables import decimals, differences_table, fixed, shortened, summary_table
from tests.support.comparisons import comparison, scores

LONG = "Ditto with a very long label that says lambda=0.1 and 5 local epochs [tuned]"
NASTY = "[a] & 50%_x $b$ <i>|*#{}~^\\ κ"
MANY = [f"method {i}" for i in range(30)]


def cases():
    yield comparison(scores(["FedAvg", "Local", LONG, NASTY]), control="FedAvg", margin=0.02)
    yield comparison(scores(["FedAvg", "Local", LONG, NASTY], gap=0), margin=0.03)
    yield comparison(scores(MANY))
    yield comparison(scores(MANY), control="method 3")
    yield comparison(scores(["FedAvg", "Local"], seeds=1))
    yield comparison(scores(["FedAvg", "Local"], metric="log_loss"), control="Local")
    one = scores(["FedAvg"])
    yield comparison(one)


CASES = functools.cache(lambda: list(cases()))


@pytest.fixture(params=range(7))
def case(request):
    return CASES()[request.param]


def test_text_is_narrow_and_ordered(case):
    shown = str(case)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 120
    assert "nan" not in shown.lower()
    order = [*(words[:25] for words in case.conclusions[:1]), case.estimand[:40], "of each method"]
    order += ["paired on seeds"] * bool(len(case.differences)) + ["note: "] * bool(case.notes)
    places = [shown.index(words) for words in order]
    assert places == sorted(places)
    assert lines[-1] == case.generalises
    rows = [line for line in lines if line.endswith(("different", "undecided", "equivalent", "no spread"))]
    assert len(rows) <= 30


def test_columns_stand_below_each_other(case):
    for block in str(case).split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("(")]
        heads = [i for i, line in enumerate(lines) if re.match(r"(method|pair)  ", line)]
        if not heads:
            continue
        head, rows = lines[heads[0]], lines[heads[0] + 1 :]
        for name in re.findall(r"mean \(%\)|difference \(points\)|low|high", head):
            end = head.index(name) + len(name)
            assert all(line[end - 1] in "0123456789–∞" for line in rows), (name, block)
            assert all(line[end : end + 2] in ("", "  ") for line in rows)


def test_more_rows_than_a_screen_are_counted_and_the_largest_shown():
    many = comparison(scores(MANY))
    assert "405 smaller differences are in the table `differences`" in str(many)
    shown = differences_table(many, 30)
    largest = many.differences["difference"].abs().sort_values(ascending=False).index[:30]
    assert {row[0] for row in shown.rows} == set(largest)
    assert "the 30 largest of 435" in shown.title
    assert len(differences_table(many).rows) == 435


def test_a_column_has_the_decimals_that_two_digits_of_its_half_width_need():
    assert decimals([4.13, 4.9, 3.2], []) == 1
    assert decimals([0.0413], []) == 3
    assert decimals([41.0], []) == 0
    assert decimals([41.0], [], 1) == 1
    assert decimals([np.nan, 0.0], [0.123]) == 3
    assert decimals([], []) == 0
    of = comparison(scores(["FedAvg", "Local"], sd=0.002), control="FedAvg")
    table = summary_table(of)
    column = [row[table.header.index("mean (%)")] for row in table.rows]
    half = 100 * (of.summary["high"] - of.summary["low"]).median() / 2
    assert {len(cell.partition(".")[2]) for cell in column} == {max(1, 1 - int(np.floor(np.log10(half))))}
    assert [float(cell) for cell in column] == pytest.approx(list(100 * of.summary["mean"]), abs=0.051)


def test_what_is_missing_is_a_dash_and_is_said():
    of = comparison(scores(["FedAvg", "Local"]), control="FedAvg")
    summary = of.summary.copy()
    summary.loc["Local", ["mean", "low", "high", "by samples", "sd over seeds"]] = np.nan
    gap = "3 of 60 values of accuracy are missing"
    of.scores.missing["Local"] = gap
    differences = of.differences.assign(low=np.nan, high=np.nan, outcome="no spread")
    shown = [
        f(comparison(of.scores, control="FedAvg", summary=summary, differences=differences, notes=(gap,)))
        for f in (str, lambda c: c.to_markdown(), lambda c: c._repr_html_(), lambda c: c.to_latex())
    ]
    for words in shown:
        assert not re.search(r"\bnan\b|\bNone\b", words, re.IGNORECASE)
        assert gap in words
    assert "–" in shown[0]
    assert "‡" not in shown[0]


def test_a_number_has_no_negative_zero_and_a_true_minus():
    assert fixed(-0.001, 1) == "0.0"
    assert fixed(-1.25, 2) == "−1.25"
    assert fixed(np.nan, 2) == "–"
    assert fixed(-np.inf, 2) == "−∞"


def test_shortened_names_stay_apart():
    names = [f"a method with a long name, lr = {i} and nothing else to tell them apart" for i in range(12)]
    short = shortened(names, 20)
    assert len(set(short.values())) == 12
    assert shortened(["abc"], 20) == {"abc": "abc"}
    assert shortened([LONG], 21)[LONG] == "Ditto with…hs [tuned]"


class Parsed(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows, self.words = [], [], []

    def handle_starttag(self, tag, attributes):
        assert tag in {
            "div",
            "ul",
            "li",
            "p",
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "details",
            "summary",
        }
        assert not {name for name, _ in attributes} & {"src", "href"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, words):
        self.words.append(words)
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(words)


def test_html_is_whole_and_escaped(case):
    page = Parsed()
    page.feed(case._repr_html_())
    assert not page.open
    words = "".join(page.words)
    if NASTY in case.scores.methods:
        assert NASTY in words
    assert case.generalises in words
    if len(case.differences) == 435:
        assert len(page.rows) == (1 + 30) + (1 + 30) + (1 + 435)


def test_markdown_tables_have_equal_rows_and_nothing_of_a_label_is_markup(case):
    shown = case.to_markdown()
    for block in re.findall(r"(?:^\|.*\n)+", shown, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(cells) == 1
    if NASTY in case.scores.methods:
        plain = re.sub(r"\\([\\`*_{}\[\]<>|#~$])", r"\1", shown)
        assert NASTY in plain
        assert "<i>" not in shown


#: What may stand in LaTeX: text commands that its kernel and booktabs know, and the escapes.
COMMANDS = (
    "begin end centering caption toprule midrule bottomrule textbf underline dagger ddagger smallskip footnotesize "
    "linewidth textbackslash textasciicircum textasciitilde ldots kappa usepackage"
)


def test_latex_is_balanced_and_needs_booktabs_alone(case):
    shown = case.to_latex()
    assert set(re.findall(r"\\([A-Za-z]+)", shown)) <= set(COMMANDS.split())
    bare = re.sub(r"\\[\\{}$&#%_^`]", "", shown.partition("\n")[2])
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert all(ord(sign) < 0x250 for sign in shown), "a sign that pdflatex does not know"
    assert re.findall(r"\\begin\{(\w+)\}", shown) == ["table", "tabular", "minipage"]
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", shown)[1])
    body = shown.partition("\\toprule\n")[2].partition("\\bottomrule")[0]
    rows = [line for line in body.splitlines() if line != r"\midrule"]
    for row in rows:
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row)) == columns - 1
        assert not row.startswith(("[", "*")), "would be read as an argument of the line before"
    assert len(rows) == 1 + len(case.summary)
    assert not re.search(r"\bnan\b", shown, re.IGNORECASE)


def test_latex_marks_the_best_and_what_equals_it_by_rule():
    of = comparison(scores(["A", "B", "C", "D"], gap=0.0, sd=0.0, clients=4), margin=0.02)
    means = pd.Series([0.70, 0.69, 0.65, 0.5], index=of.summary.index)
    summary = of.summary.assign(mean=means, low=means - 0.01, high=means + 0.01)
    outcomes = {("A", "B"): "equivalent", ("A", "C"): "undecided", ("A", "D"): "different"}
    differences = of.differences.assign(
        outcome=[
            outcomes.get((a, b), "equivalent")
            for a, b in zip(of.differences["method"], of.differences["against"], strict=True)
        ]
    )
    shown = comparison(of.scores, margin=0.02, summary=summary, differences=differences).to_latex()
    assert r"A & \textbf{70.0 [69.0, 71.0]}" in shown
    assert r"B & \underline{69.0 [68.0, 70.0]}" in shown
    assert r"C & 65.0 [64.0, 66.0]$^{\dagger}$" in shown
    assert r"D & 50.0 [49.0, 51.0] &" in shown
    assert "underlined: equivalent to the best within 2 points; $^{\\dagger}$: not told apart" in shown
    family = comparison(of.scores, control="D", summary=summary).to_latex()
    assert r"\underline" not in family
    assert r"$^{\dagger}$" not in family
    assert "It was not compared with all other methods, so none of them is marked." in family
    losses = scores(["A", "B"], metric="log_loss")
    lower = comparison(losses, control="A")
    best = lower.summary["mean"].idxmin()
    assert re.search(rf"^{best} & \\textbf", lower.to_latex(), re.MULTILINE)
    unknown = comparison(scores(["A", "B"], metric="width"), control="A").to_latex()
    assert r"\textbf" not in unknown
    assert "more or less may be better" in unknown


def test_csv_holds_every_number_unrounded(case, tmp_path):
    path = tmp_path / "comparison.csv"
    case.to_csv(path)
    read = pd.read_csv(path)
    summary, differences = (read[read["table"] == name] for name in ("summary", "differences"))
    assert list(summary["method"]) == list(case.summary.index)
    assert summary["mean"].to_numpy() == pytest.approx(case.summary["mean"].to_numpy(), rel=1e-12)
    assert len(differences) == len(case.differences)
    if len(differences):
        assert differences["low"].to_numpy() == pytest.approx(case.differences["low"].to_numpy(), rel=1e-12)
    assert set(read["metric"]) == {case.scores.metric}
    before = path.read_bytes()
    case.to_csv(path)
    assert path.read_bytes() == before
