"""Cells of printed tables: what is a value, what is missing, and what is refused."""

import pytest

from fedstat.inference import read_printed


def latex(*rows):
    return "\\begin{tabular}{lcc}\nM & a & b \\\\ \\hline\n" + "\n".join(rows) + "\\end{tabular}"


@pytest.mark.parametrize("cell", ["83.3 (+1.0)", r"83.3 (1.0$\uparrow$)", "83.3_{0.1}"])
def test_what_is_no_deviation_is_not_read_as_one(cell):
    with pytest.raises(ValueError, match=r"line 4, 'a': .* is no value"):
        read_printed(latex(r"X & 1 & 2\\", rf"Y & {cell} & 2\\"))


SYMBOLS = [r"\ding{55}", r"\ding {51}", r"\textcolor{red}{\ding{55}}", r"\symbol{215}", r"\XSolidBrush", r"$\times$"]


@pytest.mark.parametrize("cell", [*SYMBOLS, r"\cellcolor[gray]{0.9}", r"\cellcolor{red!20}\multirow{2}{*}{}"])
def test_a_symbol_or_a_colour_is_no_value(cell):
    assert read_printed(latex(rf"X & 61 & {cell} \\", r"Y & 62 & 2 \\", r"Z & 63 & 3 \\")).cells["mean"].tolist() == [
        61, 62, 2, 63, 3,
    ]  # fmt: skip


MISSING = ["-", "--", "---", "–", "—", "−", "/", "n/a", "N/A", "n.a.", "NA", "NaN", "OOM", "x", "×", "✗", "✓", "?", "*"]
IN_LATEX = [r"\textemdash", r"\textendash{}", "$-$", r"n/a$^\dagger$"]


@pytest.mark.parametrize("cell", ["", *MISSING, "n. a.", *IN_LATEX])
def test_a_missing_cell_may_be_written_in_many_ways(cell):
    sources = [latex(rf"X & 1 & {cell} \\", r"Y & 2 & 3 \\"), f"|M|a|b|\n|-|-|-|\n|X|1|{cell}|\n|Y|2|3|"]
    for source in sources[: 1 if cell in IN_LATEX else 2]:
        assert read_printed(source).cells[["setting", "method", "mean"]].to_numpy().tolist() == [
            ["a", "X", 1], ["a", "Y", 2], ["b", "Y", 3],
        ]  # fmt: skip


@pytest.mark.parametrize("cell", ["failed", "None2", "nana", "-x-1", "1 a"])
def test_what_is_neither_a_value_nor_missing_is_refused_and_the_error_says_how_a_missing_cell_is_written(cell):
    with pytest.raises(ValueError, match=rf"line 4, 'a': '{cell}' is no value.* a missing one is empty, -, n/a or"):
        read_printed(latex(r"X & 1 & 2\\", rf"Y & {cell} & 2\\"))


NOTES = [r"$^{1}$", r"$^1$", r"$ ^ { 12 } $", r"$^{a}$", r"\textsuperscript{2}", r"\footnotemark[1]", r"\tnote{b}"]


@pytest.mark.parametrize("note", [*NOTES, r"$^\dagger$", r"\footnote{Of 3 runs.}"])
@pytest.mark.parametrize("value", [r"84.0 $\pm$ 0.5", r"84.0 (0.5)", r"$84.0_{\pm 0.5}$", r"\textbf{84.0 \textpm 0.5}"])
def test_a_footnote_is_no_part_of_a_value(note, value):
    cells = read_printed(latex(r"X & 81 & 2\\", rf"Y & {value}{note} & 2\\"), runs=3, spread="sd").cells
    assert cells.loc[2, ["mean", "sd"]].tolist() == [84.0, 0.5]


@pytest.mark.parametrize(
    "cell", ["10$^{3}$", r"1.2$\times$10$^{3}$", "$10^{-3}$", "$1.5^{2}$", r"10\textsuperscript{3}"]
)
def test_a_power_is_no_footnote(cell):
    with pytest.raises(ValueError, match=r"line 4, 'a': .*(is no value|is not known)"):
        read_printed(latex(r"X & 1 & 2\\", rf"Y & {cell} & 2\\"))


@pytest.mark.parametrize(
    ("cell", "command"),
    [
        (r"\sqrt{81}", "sqrt"),
        (r"\best{85.0}", "best"),
        (r"83.3\std{0.1}", "std"),
        (r"\sout{\textbf{85.0}}", "sout"),
        (r"\textbf{\raisedto[2]{85.0}}", "raisedto"),
        (r"\second{}{85.0}", "second"),
        (r"\textbf{\multirow{2}{*}{}}", "multirow"),
        (r"\cellcolor{\shade{55}}", "cellcolor"),
        (r"\char55", "char"),
    ],
)
def test_a_number_in_the_argument_of_an_unknown_command_is_no_value(cell, command):
    with pytest.raises(ValueError, match=rf"line 4, 'a': what \\{command} makes of its argument is not known"):
        read_printed(latex(r"X & 81 & 2\\", rf"Y & {cell} & 2\\"))


@pytest.mark.parametrize(
    "cell",
    [
        r"\textbf{84.0}{\scriptsize$\pm$0.5}", r"$\mathbf{84.0}_{\scriptstyle{\pm 0.5}}$", r"84.0 \tiny{(0.5)}",
        r"\cellcolor{red!25}\multirow{1}{*}{84.0 $\pm{0.5}$}",
        r"\colorbox{gray!10}{84.0} $\pm$ \phantom{0}0.5\tnote{1}",
    ],
)  # fmt: skip
def test_commands_that_set_their_argument_as_it_is_are_read(cell):
    cells = read_printed(latex(r"\ours{X2} & 81 & 2\\", rf"Y & {cell} & 2\\"), runs=3, spread="sd").cells
    assert cells["method"].tolist() == ["X2", "X2", "Y", "Y"]
    assert cells.loc[2, ["mean", "sd"]].tolist() == [84.0, 0.5]


def test_what_stands_between_rows_is_no_cell_and_mathematics_in_markdown_is_a_value():
    rows = (
        r"X & 81 & 2 \tabularnewline", r"\addlinespace[2pt]\rule{0pt}{2.6ex} Y & 82 & 2 \tabularnewline",
        r"\arrayrulecolor{black}\cdashline{1-3}\noalign{\vskip 2pt} Z & 83 & 2 \\",
    )  # fmt: skip
    assert read_printed(latex(*rows)).cells["method"].tolist() == list("XXYYZZ")
    source = r"|M|$\alpha$|b|" + "\n|-|-|-|\n" + r"|A|$82.3 \pm 0.1$|1|" + "\n" + r"|B|$\mathbf{83_{\pm .2}}$|2|"
    cells = read_printed(source, runs=3, spread="sd").cells
    assert cells["setting"].tolist() == ["α", "b"] * 2
    assert cells[["mean", "sd", "bold"]].to_numpy().tolist()[::2] == [[82.3, 0.1, False], [83, 0.2, True]]
