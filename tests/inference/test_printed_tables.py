"""Tables of papers: read as they are printed, and judged as independent runs are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestIndPower
from typer.testing import CliRunner

from fedstat.cli import app
from fedstat.inference import PrintedTable, compare_printed, read_printed
from fedstat.inference.intervals.moderated import fit_prior

LATEX = r"""
\begin{table}[t]
\caption{Accuracy.} % not a table: \begin{tabular} & \\
\begin{tabular}{l|cc|c}
\toprule
\multirow{2}{*}{Method} & \multicolumn{2}{c|}{CIFAR-10} & EMNIST \\
\cmidrule(lr){2-3}
 & $\alpha=0.1$ & $\alpha=0.5$ & iid \\
\midrule
Local \citep{x} & 80.12 $\pm$ .40 & 60.0$\pm$0.9 & 71.2 \\
FedAvg~\cite{mc} & $70.3_{\pm 1.20}$ & 63.1 (0.8) & 80.1\\[2pt]
\rowcolor{gray}\textbf{Ours} & \textbf{85.01 $\pm$ 0.30} & {\bf 63.9} {\scriptsize $\pm$ 0.7} & \underline{80.2\%}\\
\bottomrule
\end{tabular}
\end{table}
"""


def printed(means, sds, n=3, bold=(), smaller=False, step=0.0, setting="s"):
    names = [f"m{i}" for i in range(len(means))]
    marked = [i in bold for i in range(len(means))]
    cells = {"setting": setting, "method": names, "mean": means, "sd": sds, "runs": n, "step": step, "sd_step": 0.0}
    return PrintedTable(pd.DataFrame(cells).assign(bold=marked, underlined=False, line=range(len(means))), smaller)


def test_latex_is_read_as_it_is_printed():
    cells = read_printed(LATEX, runs=3, spread="sd").cells.set_index(["setting", "method"])
    assert list(dict.fromkeys(cells.index.get_level_values(0))) == [
        "CIFAR-10 / α=0.1",
        "CIFAR-10 / α=0.5",
        "EMNIST / iid",
    ]
    one = cells.loc[("CIFAR-10 / α=0.1", "FedAvg")]
    assert (one["mean"], one["sd"], one["step"], one["sd_step"], one["bold"], one["line"]) == (
        70.3,
        1.2,
        0.1,
        0.01,
        False,
        11,
    )
    assert cells.xs("Ours", level=1)[["mean", "sd", "bold", "underlined"]].fillna(-1).to_numpy().tolist() == [
        [85.01, 0.3, True, False],
        [63.9, 0.7, True, False],
        [80.2, -1, False, True],
    ]


cells = st.tuples(st.integers(0, 9999), st.integers(0, 999), st.booleans())


@settings(max_examples=30)
@given(
    st.lists(st.lists(cells, min_size=2, max_size=4), min_size=2, max_size=5).filter(lambda t: len({*map(len, t)}) == 1)
)
def test_what_is_printed_is_read_back(table):
    """To LaTeX and Markdown and back."""
    columns = range(len(table[0]))
    latex, markdown = [], []
    for i, row in enumerate(table):
        values = [(f"{mean / 100:.2f}", f"{sd / 100:.2f}", bold) for mean, sd, bold in row]
        latex.append(
            " & ".join([f"m{i}", *((r"\textbf{%s $\pm$ %s}" if b else r"%s $\pm$ %s") % (m, s) for m, s, b in values)])
        )
        markdown.append("|".join(["", f"m{i}", *(f"**{m} ± {s}**" if b else f"{m} ({s})" for m, s, b in values), ""]))
    heads = [f"c{j}" for j in columns]
    sources = [
        r"\begin{tabular}{l}"
        + "\n"
        + " & ".join(["", *heads])
        + r"\\ \midrule"
        + "\n"
        + "\\\\\n".join(latex)
        + r"\end{tabular}",
        "|".join(["", "", *heads, ""]) + "\n" + "|---" * (len(heads) + 1) + "|\n" + "\n".join(markdown),
    ]
    for source in sources:
        read = read_printed(source, runs=3, spread="sd", methods="rows").cells
        assert read[["mean", "sd", "bold"]].to_numpy().tolist() == [
            [m / 100, s / 100, b] for row in table for m, s, b in row
        ]
        assert read["setting"].tolist() == heads * len(table)


def test_a_page_with_spanning_cells_and_a_list_are_read(tmp_path):
    page = tmp_path / "table.html"
    page.write_text(
        "<table><thead><tr><th rowspan=2>M<th colspan=2>C</tr><tr><th>a<th>b</tr></thead><tr><td>A<td><b>82.1 ± .1</b>"
        "<td>80 ± 1</tr><tr><td>B<td>81 ± .1<td>81 ± 1</tr></table>"
    )
    read = read_printed(page, runs=4, spread="se").cells
    assert read["setting"].tolist() == ["C / a", "C / b"] * 2
    assert read["sd"].tolist() == [0.2, 2, 0.2, 2]  # standard errors of four runs
    (rows := tmp_path / "rows.csv").write_text("method,mean,se,runs,bold\nA,1.5,.1,4,\nB,1.2,.25,16,1\n")
    assert read_printed(rows).cells[["sd", "runs", "bold"]].to_numpy().tolist() == [[0.2, 4, False], [1.0, 16, True]]


@pytest.mark.parametrize(
    ("source", "given", "what"),
    [
        ("||a|\n|-|-|\n|A|82.1 / 3|\n|B|8|", {}, r"line 3, 'a': '82.1 / 3' is no value"),
        ("||a|\n|-|-|\n|A|82.1(4)|\n|B|8|", {}, "may hold a deviation of 4, or of as many units of the last digit"),
        ("||a|\n|-|-|\n|A|82 ± 3|\n|B|8|", {}, "it prints spreads: say spread="),
        ("||a|\n|-|-|\n|A|82 ± 3|\n|B|8|", {"spread": "sd"}, "say over how many runs they are"),
        ("||a|\n|-|-|\n|A|82|\n|A|8|", {}, "'A' has two values for 'a'"),
        ("||a|\n|-|-|\n|A|82|", {"table": 2}, "table must be the number of one of its 1 tables, got 2"),
        ("||a|\n|-|-|\n|A|yes|", {}, "no column beside the first holds a value"),
        ("|M|acc|std|\n|-|-|-|\n|A|82|1|\n|B|80|1|", {}, "column 'std' holds no scores"),
        ("|S|acc|s.d.|\n|-|-|-|\n|A|82|1|\n|B|80|1|", {"methods": "columns"}, "column 's.d.' holds no scores"),
        ("||a / standard deviation|\n|-|-|\n|A|1|\n|B|2|", {}, "column 'a / standard deviation' holds no scores"),
        ("||a|\n|-|-|\n|A|84<br>83|\n|B|80|", {}, "line 3, 'a': '84 83' is no value"),
        ("||a|\n|-|-|\n|A|84|\n|B|80|79|", {}, "line 4: '79' stands beyond the 2 columns of the head"),
        ("||a|\n|-|-|\n|A|80|\n|B|0.8|", {}, "line 4: 0.8 seems a share among percent such as 80, for 'a'"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(source, given, what):
    with pytest.raises(ValueError, match=what):
        read_printed(source, **given)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("t.csv", "method,mean,sd,n\nA,82,-1,3\nB,8,1,3\n", "line 2: sd must be one number of at least 0, got '-1'"),
        ("t.csv", "method,mean,sd,n\nA,82,1,3\nA,8,1,3\n", "line 3: 'A' has two values for 'all'"),
        ("t.csv", "method,mean,sd,runs\nA,82,1,three\nB,8,1,3\n", "line 2: runs must be a whole number, got 'three'"),
        ("t.csv", "method,mean,sd,n\nA,82,1,3\nB,8,1,\n", "say over how many runs"),
        ("t.csv", "method,mean,spread,n\nA,82,1,3\nB,80,1,3\n", "column 'n' holds no scores"),
        ("t.csv", "method,mean\nA,82,3\nB,80,1\n", "line 2: '3' stands beyond the 2 columns"),  # decimal commas
        ("t.html", "<table>\n<tr><th>M<th colspan=x>a", "line 2: colspan and rowspan must be whole numbers"),
    ],
)
def test_faults_of_files_are_said_with_file_and_line(tmp_path, name, text, what):
    (file := tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name}: .*{what}"):
        read_printed(file)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_table_is_read_whatever_separates_its_columns(tmp_path, mark):
    """Beside semicolons commas are decimal, as in Excel's files, which begin with a mark of their own."""
    rows = [["method", "mean", "sd", "runs"], ["A, 0,1", "70,3", "1,2", "5"], ["B", "-83", "0,55", "3"]]
    if mark != ";":
        rows = [[f'"{one}"' if "," in one and one[0] == "A" else one.replace(",", ".") for one in row] for row in rows]
    (file := tmp_path / "t.csv").write_text("\n".join(map(mark.join, rows)), encoding="utf-8-sig")
    cells = read_printed(file, spread="sd").cells
    assert cells[["method", "mean", "sd", "runs"]].to_numpy().tolist() == [
        ["A, 0,1", 70.3, 1.2, 5],
        ["B", -83, 0.55, 3],
    ]
    assert cells[["step", "sd_step"]].to_numpy().tolist() == pytest.approx(np.array([[0.1, 0.1], [1, 0.01]]))
    file.write_text('M;"a; b, c, d";Loss\nA;**70,3 ± 1,2**;0,5 (0,1)\nB;60;1,25\n')
    assert read_printed(file, runs=3, spread="sd").cells["mean"].tolist() == [70.3, 0.5, 60, 1.25]
    file.write_text('M,"a; b; c; d"\nA,70\nB,60\n')
    assert read_printed(file).cells["setting"].tolist() == ["a; b; c; d"] * 2


def test_runs_and_deviations_have_several_names_and_entities_are_letters(tmp_path):
    (file := tmp_path / "t.csv").write_text("method,mean,std,n\nA,82,1,3\nB,80,2,\n")
    assert read_printed(file, runs=5).cells[["sd", "runs"]].to_numpy().tolist() == [[1, 3], [2, 5]]
    source = "||a|\n|-|-|\n|A|84.0<br>&#xB1; 3.5|\n|B|80 &plusmn; 1|"
    assert read_printed(source, runs=3, spread="sd").cells["sd"].tolist() == [3.5, 1]


def test_a_failed_method_among_percent_and_diverging_losses_are_no_shares():
    for column in (("80.12", "0.98", "1.00"), ("1.2", "0.85", "12.5"), ("0.81", "0.9", "1.0")):
        rows = "\n".join(f"|m{i}|{value}|" for i, value in enumerate(column))
        assert read_printed(f"||a|\n|-|-|\n{rows}").cells["mean"].tolist() == list(map(float, column))


def test_half_widths_are_those_of_normal_intervals():
    runs = np.random.default_rng(0).normal(80, 2, (2, 6))
    half = stats.norm.interval(0.95, scale=stats.sem(runs, axis=1))[1]
    rows = [f"|m{i}|{mean:.6f} ± {h:.6f}|" for i, (mean, h) in enumerate(zip(runs.mean(1), half, strict=True))]
    source = "\n".join(["||a|", "|-|-|", *rows])
    np.testing.assert_allclose(read_printed(source, runs=6, spread="ci").cells["sd"], runs.std(1, ddof=1), rtol=1e-4)


@given(st.integers(0, 10_000))
def test_limits_are_welchs(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 3)) * [[1], [3]]
    x = x[x.mean(1).argsort()]
    found = compare_printed(printed(x.mean(1), x.std(1, ddof=1), bold=[1])).differences.iloc[0]
    theirs = stats.ttest_ind(x[1], x[0], equal_var=False)
    ends = theirs.confidence_interval(0.95)
    np.testing.assert_allclose([found["low"], found["high"], found["df"]], [ends.low, ends.high, theirs.df])
    # less is better: the same with both signs turned, and rounding leaves as much open as the digits do
    turned = compare_printed(printed(-x.mean(1), x.std(1, ddof=1), bold=[1], smaller=True, step=0.1)).differences.iloc[
        0
    ]
    np.testing.assert_allclose([turned["low"], turned["high"]], [ends.low - 0.1, ends.high + 0.1])


def test_over_two_settings_limits_are_as_wide_as_is_said():
    x = np.random.default_rng(0).normal(loc=[[0], [2]], size=(2, 2, 3))
    tables = [printed(y.mean(1), y.std(1, ddof=1), bold=[1], setting=name) for name, y in zip("ab", x, strict=True)]
    found = compare_printed(PrintedTable(pd.concat([t.cells for t in tables], ignore_index=True), smaller=False))
    ends = [stats.ttest_ind(y[1], y[0], equal_var=False).confidence_interval(0.975) for y in x]
    np.testing.assert_allclose(found.differences[["low", "high"]], [[e.low, e.high] for e in ends])
    assert "limits of each pair hold by themselves, at 97.5%" in str(found)


def test_the_runs_that_would_tell_two_methods_apart_are_statsmodels():
    found = compare_printed(printed([0.0, 1.0], [1.2, 1.2], bold=[1])).differences.iloc[0]
    assert found["runs"] == np.ceil(TTestIndPower().solve_power(1 / 1.2, power=0.8, alpha=0.05))
    # with that correlation, three paired runs have their limit at zero
    spread = 1.2 * np.sqrt(2 - 2 * found["correlation"])
    np.testing.assert_allclose(1.0, stats.t.isf(0.025, 2) * spread / np.sqrt(3))


def test_what_few_runs_and_the_power_mean_is_said():
    told = str(compare_printed(printed([0.0, 1.0], [1.2, 1.2], n=3, bold=[1])))
    assert f"limits are {stats.t.isf(0.025, 4) / 1.96:.1f} times as wide" in told  # four degrees of freedom
    assert "24 runs each would tell them apart" in told
    assert "do so with a probability of 80%, if differences and deviations are those printed" in told
    assert "probability of 80%" not in str(compare_printed(printed([0, 0, 9], [1, 1, 1], bold=[2])))


def test_limits_of_moderated_variances_would_be_wrong_too_often():
    """Twenty thousand tables of eight methods, three runs each; two of them are equal."""
    rng = np.random.default_rng(0)
    x = np.exp(np.log(3) * rng.normal(size=(20_000, 8, 1))) * rng.normal(size=(20_000, 8, 3))
    variances = x.var(axis=-1, ddof=1)
    prior_df, prior = fit_prior(variances, 2)
    worth = np.minimum(prior_df, 2)[:, None]  # as `method_variances` caps it
    moderated = (worth * prior[:, None] + 2 * variances) / (worth + 2)
    wrong = []
    for v, df in ((variances[:, :2], 2), (moderated[:, :2], worth + 2)):
        of_pair = v.sum(axis=1) ** 2 / (v**2 / df).sum(axis=1)
        t = np.abs(x[:, 0].mean(axis=1) - x[:, 1].mean(axis=1)) / np.sqrt(v.sum(axis=1) / 3)
        wrong.append((t > stats.t.isf(0.025, of_pair)).mean())
    np.testing.assert_allclose(wrong, [0.05, 0.09], atol=0.006)


def test_each_answer():
    answers = {
        "stands": printed([0, 0, 9], [1, 1, 1], bold=[2]),
        "not told apart": printed([0, 8, 9], [1, 1, 1], bold=[2]),
        "not the best printed": printed([0, 9.5, 9], [1, 1, 1], bold=[2]),
        "contradicted": printed([0, 30, 9], [1, 1, 1], bold=[2]),
        "order only": printed([0, 8, 9], np.nan, bold=[2]),
    }
    for answer, table in answers.items():
        assert compare_printed(table).bold["answer"].tolist() == [answer]
    assert compare_printed(answers["contradicted"]).bold["among"][0] == ("m1",)
    assert "m2 (s) is contradicted: worse than m1 (−21" in str(compare_printed(answers["contradicted"]))
    unmarked = compare_printed(printed([0, 0, 9], [1, 1, 1]))
    assert unmarked.bold["method"].tolist() == ["m2"]
    assert "Without a bold face" in str(unmarked)
    with pytest.raises(ValueError, match="say smaller=True"):
        compare_printed(printed([0, 9], [1, 1], bold=[0]))


def test_contradictions_hold_together_over_all_bold_faces_of_a_setting():
    """Bonferroni over ordered pairs: two one-sided answers a pair, half of the level's share for each kind."""
    half = np.sqrt(2 / 10)
    for bold in ([1], [1, 2], [0, 1, 2]):
        found = compare_printed(printed([5, 7, 9], [1, 1, 1], n=10, bold=bold)).differences
        expected = found["difference"] + stats.t.isf(0.05 / 2 / (2 * len(bold)), 18) * half
        np.testing.assert_allclose(found["high (joint)"], expected)
        np.testing.assert_allclose(found["high"], found["difference"] + stats.t.isf(0.05 / 2, 18) * half)


@pytest.mark.slow
@pytest.mark.parametrize(("methods", "spread"), [(2, 0.0), (2, 1.0), (4, 1.0)])
def test_no_bold_face_stands_too_often(methods, spread):
    """Two methods are the best and the others far behind: the worst case, in which one bold face in twenty may err."""
    rng = np.random.default_rng(0)
    means, wrong = np.where(np.arange(methods) < 2, 0, -1000.0)[:, None], 0
    for _ in range(200):
        x = means + np.exp(spread * rng.normal(size=(methods, 1))) * rng.normal(size=(methods, 3))
        wrong += compare_printed(printed(x.mean(1), x.std(1, ddof=1))).bold["answer"][0] == "stands"
    assert stats.binomtest(wrong, 200).proportion_ci(0.99).low < 0.06


def test_on_the_command_line(tmp_path):
    (file := tmp_path / "table.tex").write_text(LATEX)
    asked = CliRunner().invoke(app, ["compare", str(file)])
    assert asked.exit_code == 1
    assert "--spread" in asked.stderr
    ignored = ["--control", "FedAvg", "--margin", "5", "--plot", "f.pdf"]
    asked = CliRunner().invoke(app, ["compare", str(file), "--seeds", "3", "--spread", "sd", *ignored])
    assert asked.exit_code == 1
    assert "takes --level alone of a comparison's options, got control, margin, plot." in asked.stderr
    told = CliRunner().invoke(app, ["compare", str(file), "--seeds", "3", "--spread", "sd"])
    assert told.exit_code == 0
    assert told.stdout.startswith("1 of 2 bold faces with a deviation stand.")
    assert "Ours (CIFAR-10 / α=0.5) is not told apart from FedAvg (0.8 [" in told.stdout


def latex(*rows):
    return (
        r"\begin{tabular}{lcc}\toprule" + "\nM & a & b \\\\ \\midrule\n" + "\n".join(rows) + r"\bottomrule\end{tabular}"
    )


def test_headings_group_methods_or_name_settings_and_labels_that_could_be_either_are_asked_about():
    groups = (r"\multicolumn{3}{l}{Old}\\", r"X & 1 & 2\\%W & 9 & 9 \\", r"\multicolumn{3}{l}{New}\\", r"Y & 3 & 4\\")
    cells = read_printed(latex(*groups)).cells
    assert cells[["setting", "method", "mean"]].to_numpy().tolist() == [
        ["a", "X", 1], ["b", "X", 2], ["a", "Y", 3], ["b", "Y", 4],
    ]  # fmt: skip
    sets = (
        r"\multicolumn{3}{l}{MNIST}\\",
        r"X & 1 & 2\\",
        r"\multicolumn{3}{l}{EMNIST}\\",
        r"X & 3 & 4\\",
        r"Z & & \\",
    )
    assert read_printed(latex(*sets)).cells["setting"].tolist() == [
        "MNIST / a",
        "MNIST / b",
        "EMNIST / a",
        "EMNIST / b",
    ]
    labels = (r"\multirow{2}{*}{S} & X & 1\\", r"& Y & 2\\", r"T & X & 3\\", r"& Y & 4\\")
    with pytest.raises(ValueError, match="rows have two labels, and the second repeats"):
        read_printed(latex(*labels).replace(r"{T}", "T").replace("M & a & b", "D & M & b"))
    cells = read_printed(latex(*labels).replace("M & a & b", "Dataset & Method & b")).cells
    assert cells[["setting", "method", "mean"]].to_numpy().tolist() == [
        ["S / b", "X", 1], ["S / b", "Y", 2], ["T / b", "X", 3], ["T / b", "Y", 4],
    ]  # fmt: skip
    groups = latex(r"Old & X & 1\\", r"New & Y & 2\\").replace("M & a & b", "Kind & Method & b")
    assert read_printed(groups).cells["setting"].tolist() == ["b", "b"]
    below = (r"& X & 1\\", r"\multirow{-2}{*}{S} & Y & 2\\")
    assert read_printed(latex(*below)).cells["method"].tolist() == ["X", "Y"]


TURNED = "|{}|A|B|C|\n|-|-|-|-|\n|x|1|2|**3**|\n|y|1|**2**|1|\n|z|1|2|**3**|"


def test_where_methods_are_is_asked_if_bold_faces_or_heads_speak_against_it():
    with pytest.raises(ValueError, match=r'each row, and not each column, has one bold face: .* methods="columns"'):
        read_printed(TURNED.format("M"))
    with pytest.raises(ValueError, match="'Dataset' heads the rows: where are the methods"):
        read_printed(TURNED.format("Dataset").replace("*", ""))
    assert read_printed(TURNED.format("Dataset"), methods="columns").cells["setting"].tolist() == list("xxxyyyzzz")
    assert read_printed(TURNED.format("Dataset"), methods="rows").cells["setting"].tolist() == list("ABC") * 3
    upright = "|Dataset|x|y|z|\n|-|-|-|-|\n|A|1|1|1|\n|B|2|**2**|2|\n|C|**3**|1|**3**|"
    assert read_printed(upright).cells["setting"].tolist() == list("xyz") * 3
    with pytest.raises(ValueError, match=r'each column, and not each row, has one bold face.* say methods="rows"'):
        read_printed(upright, methods="columns")


HEADS = [("acc", "acc sd"), ("mean_acc", "std_acc"), ("F1 / mean", "F1 / std. dev."), ("CIFAR-10", "SD of CIFAR-10")]


@pytest.mark.parametrize(("mean", "spread"), HEADS)
def test_columns_of_spreads_belong_to_their_means(mean, spread):
    source = f"|M|{mean}|{spread}|loss|loss (se)|\n|-|-|-|-|-|\n|A|1|.1|3|.2|\n|B|2|.3|4||"
    cells = read_printed(source, runs=4).cells
    assert cells["setting"].tolist() == [mean, "loss"] * 2
    assert cells["sd"].fillna(-1).tolist() == [0.1, 0.4, 0.3, -1]
    with pytest.raises(ValueError, match=r"line 4: .* must be one number of at least 0, got '-.3'"):
        read_printed(source.replace("|.3", "|-.3"), runs=4)
    with pytest.raises(ValueError, match="column 'x_sd' holds no scores"):
        read_printed(source.replace("(se)", "").replace(f"|{spread}|", "|x_sd|"), runs=4)


def test_a_list_of_means_is_judged_without_options(tmp_path):
    (file := tmp_path / "t.csv").write_text("dataset,method,rmse,std,n,bold\nS,A,.8,.01,3.0,1.0\nS,B,1.9,.01,3.0,\n")
    told = CliRunner().invoke(app, ["compare", str(file), "--level", ".9"])
    assert told.stdout.startswith("1 of 1 bold faces with a deviation stand.\n\nA (S / rmse) stands")
    file.write_text(file.read_text().replace("1.0", "x"))
    assert "line 2: bold must be 1 for a bold face" in CliRunner().invoke(app, ["compare", str(file)]).stderr
    file.write_bytes(b"method,mean,sd\nM\xe9thode,1,2\n")
    with pytest.raises(ValueError, match=r"t.csv is no text in UTF-8"):
        read_printed(file)


def test_several_bold_faces_are_held_against_each_other_too():
    found = compare_printed(printed([80.0, 81.4, 81.5], [0.5] * 3, n=10, bold=[1, 2]))
    assert found.bold["answer"].tolist() == ["not the best printed", "not told apart"]
    assert (
        compare_printed(printed([1.0, 1.0], [0.1, 0.1], bold=[0, 1])).bold["answer"].tolist() == ["not told apart"] * 2
    )
    beside = compare_printed(printed([80.0, 81.4, 81.2], [np.nan, 0.5, 0.5], bold=[1]))
    assert "m1 (s) is not told apart from m0 (only the order is known) and m2 (0.2 [" in str(beside)
    alone = compare_printed(printed([80.0, 81.4, 81.2], [0.5, np.nan, 0.5], bold=[1]))
    told = "m1 (s): only the order is known, there is no deviation that can be compared"
    assert f"{told}.\n" in str(alone)
    assert str(alone).startswith("No bold face has a deviation that can be compared.")
    behind = compare_printed(printed([82.0, 81.0, 79.0], np.nan, bold=[1], step=0.1))
    assert f"{told}; printed better: m0 (82.0).\n" in str(behind)
    assert "m1 (s): only the order is known, one run has no deviation." in str(
        compare_printed(printed([80.0, 81.0], [0.1, 0.1], n=1))
    )
    assert "times as wide" not in str(alone)


def test_arrows_say_what_is_better_and_bold_is_seen_before_a_number():
    table = latex(r"X & \bf84.1 & 9 \\", r"Y & 70 & {\bfseries8}\\").replace("& b", r"& b $\downarrow$")
    found = compare_printed(read_printed(table))
    assert found.bold[["setting", "method"]].to_numpy().tolist() == [["a", "X"], ["b ↓", "Y"]]
    assert (found.differences["difference"] > 0).all()


LESS = [
    "Loss",
    "Test loss",
    "MNIST / val_loss",
    "Error (%)",
    "RMSE",
    "Cross-entropy",
    "NLL",
    "Avg. rank",
    "Test Err.",
    "ECE",
    "PPL ↓",
    r"FID $\downarrow$",
]
MORE = ["Acc", "Top-1", "Loss / Accuracy", "Loss ↑", r"MAE $\uparrow$", "Acc, rank 8"]
OPEN = ["CIFAR-10", "Lossless", "Terror", "Forgetting", "rank 8"]


def two(head, other="b", smaller=False):
    """The first of two columns has the smaller value in bold, and the second the larger one."""
    source = f"|M|{head}|{other}|\n|-|-|-|\n|X|0.90 ± 0.01|70.3 ± 1.2|\n|Y|**0.50 ± 0.01**|**85.0 ± 0.4**|"
    return compare_printed(read_printed(source, runs=3, spread="sd", smaller=smaller))


@pytest.mark.parametrize("head", LESS)
def test_less_is_better_in_columns_that_say_so_and_in_no_others(head):
    found = two(head)
    assert found.bold["answer"].tolist() == ["stands", "stands"]
    assert found.differences["difference"].tolist() == pytest.approx([0.4, 14.7])
    shown = head.replace(r"$\downarrow$", "↓")
    assert f"Less is taken to be better in {shown}, and more in all others." in found.notes


@pytest.mark.parametrize("head", MORE)
def test_more_is_better_in_all_others(head):
    found = two(head)
    assert found.bold["answer"].tolist() == ["contradicted", "stands"]
    assert "More is taken to be better everywhere." in found.notes


@pytest.mark.parametrize("head", OPEN)
def test_where_the_only_bold_face_is_the_worst_of_an_unknown_metric_it_is_asked_what_is_better(head):
    with pytest.raises(ValueError, match=f"the only bold face of {head} is the worst value if more is better: mark"):
        two(head)
    with pytest.raises(ValueError, match=r"the only bold face of b is the worst value if less is better in .*: mark"):
        two(head, smaller=True)
    assert two(f"{head} ↓").bold["answer"].tolist() == ["stands", "stands"]


def test_a_whole_table_may_be_said_to_be_of_losses_and_bold_faces_tell_when_it_is_not():
    found = two("FID", "Acc ↑", smaller=True)
    assert found.bold["answer"].tolist() == ["stands", "stands"]
    assert "Less is taken to be better in FID, and more in all others." in found.notes
    tables = [printed([0, 9], [1, 1], bold=[1], setting=name).cells for name in ("Focal loss", "Error")]
    with pytest.raises(
        ValueError, match=r"2 of 2 .* if less is better in Focal loss and Error.*: mark each head with ↓"
    ):
        compare_printed(PrintedTable(pd.concat(tables, ignore_index=True), smaller=False))
    with pytest.raises(ValueError, match="if less is better in s, and more elsewhere: say smaller=False"):
        compare_printed(printed([0, 9], [1, 1], bold=[1], smaller=True))


@given(st.tuples(*[st.floats(0.1, 3)] * 2))
def test_limits_are_the_widest_that_the_printed_digits_allow(sds):
    cells = printed([0.0, 1.0], list(np.round(sds, 1)), bold=[1]).cells.assign(sd_step=0.1)
    found = compare_printed(PrintedTable(cells, False)).differences.iloc[0]
    box = [np.clip(np.round(sd, 1) + np.array([-0.05, 0, 0.05]), 0, None) ** 2 for sd in sds]
    for a in box[0]:
        for b in box[1]:
            df = (a + b) ** 2 / (a**2 / 2 + b**2 / 2)
            assert found["high"] - found["difference"] >= stats.t.isf(0.025, df) * np.sqrt((a + b) / 3) - 1e-9


ROWS = "A & 82.3 $\\pm$ 0.4 \\\\\nB & 81.1 $\\pm$ 0.3 \\\\\n"
SHAPES = {
    "siunitx": ("tabular", "{l S[table-format=2.1(1)]}", "A & 82.3(4) \\\\\nB & 81.1(3) \\\\\n"),
    "num": ("tabular", "{lc}", "A & \\num{82.3(4)} \\\\\nB & \\num[a=b]{81.1(3)} \\\\\n"),
    "made cells": (
        "tabular",
        "{lc}",
        "A & \\makecell[c]{82.3 \\\\ $\\pm$ 0.4} \\\\\nB & \\makecell{81.1 $\\pm$ 0.3}\\\\\n",
    ),
    "phantoms": ("tabular", "{lc}", ROWS.replace("0.4", "\\phantom{0}0.4")),
    "tabularray": ("tblr", "{colspec={lc}}", ROWS),
    "nicematrix": ("NiceTabular", "{lc}[hvlines]", ROWS),
    "two heads": ("longtable", "{lc}", "\\endfirsthead\nM & later \\\\\\hline\\endhead\nfoot & \\\\\\endfoot\n" + ROWS),
}


@pytest.mark.parametrize(("environment", "columns", "rows"), SHAPES.values(), ids=SHAPES)
def test_packages_for_tables_are_read(environment, columns, rows):
    caption = "\\caption[s]{A {b}}\\label{t}\\\\\n" if environment == "longtable" else ""
    source = f"\\begin{{{environment}}}{columns}\n{caption}M & X \\\\\n\\hline\n{rows}\\end{{{environment}}}\n"
    cells = read_printed(source, runs=3, spread="sd").cells
    assert cells[["setting", "method", "mean", "sd"]].to_numpy().tolist() == [
        ["X", "A", 82.3, 0.4],
        ["X", "B", 81.1, 0.3],
    ]


@pytest.mark.parametrize("unread", ["\\begin{tabular}{c}82\\end{tabular}", "\\SetCell[c=2]{c} 82", "\\Block{1-2}{82}"])
def test_what_spans_or_nests_otherwise_is_refused_with_its_line_and_other_tables_are_read(unread):
    first = f"\\begin{{tabular}}{{lc}}\nM & X \\\\\n\\hline\nA & {unread} \\\\\nB & 81 \\\\\n\\end{{tabular}}\n"
    other = f"\\begin{{tabular}}{{lc}}\nM & X \\\\\n\\hline\n{ROWS}\\end{{tabular}}\n"
    with pytest.raises(ValueError, match=r"line 4: \\.* is not read"):
        read_printed(first + other, table=1)
    with pytest.raises(ValueError, match=r"it holds 2 tables: say table=1 \(not read\) or table=2 \(M, X\)\."):
        read_printed(first + other)
    assert read_printed(other + first, runs=3, spread="sd", table=1).cells["mean"].tolist() == [82.3, 81.1]
