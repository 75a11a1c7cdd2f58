"""Tables of papers written as LaTeX again: what they print, and what is bold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from fedstat.cli import app
from fedstat.inference import PrintedTable, compare_printed, read_printed

SAME = ["setting", "method", "mean", "sd", "step", "sd_step"]
values = st.tuples(st.integers(-9999, 9999), st.integers(0, 999), st.booleans())


@settings(max_examples=15)
@given(
    st.lists(st.lists(values, min_size=2, max_size=4), min_size=2, max_size=5).filter(
        lambda t: len({*map(len, t)}) == 1
    ),
    st.integers(0, 3),
)
def test_a_table_is_read_back_as_it_was_written(table, digits):
    """Signs stand in mathematics in what is written."""
    rows = [
        " & ".join(
            [f"m{i}", *(f"{m / 10**digits:.{digits}f}" + rf" $\pm$ {s / 100:.2f}" * known for m, s, known in row)]
        )
        for i, row in enumerate(table)
    ]
    heads = [f"a{j} ↓" if j % 2 else f"a{j}" for j in range(len(table[0]))]
    source = "\\begin{tabular}{l}\n" + "\\\\\n".join([" & ".join(["M", *heads]), *rows]) + "\n\\end{tabular}"
    read = read_printed(source, runs=3, spread="sd")
    written = compare_printed(read).to_latex()
    back = read_printed(written, runs=3, spread="sd", methods="rows")
    pd.testing.assert_frame_equal(back.cells[SAME], read.cells[SAME], rtol=1e-12)
    judged = compare_printed(read)
    bold = back.cells[back.cells["bold"]].groupby("setting")["method"].agg(set)
    for row in judged.bold.to_dict("records"):
        if row["answer"] == "order only":
            assert row["setting"] not in bold.index
        else:
            assert bold[row["setting"]] >= {row["method"], *row["among"]}
            assert (len(bold[row["setting"]]) == 1) == (row["answer"] == "stands")


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_best_is_among_the_bold_as_often_as_is_said(spread):
    """One of four methods is better by next to nothing: the worst case."""
    rng, missed = np.random.default_rng(0), 0
    for _ in range(200):
        x = 50 + 1e-6 * np.eye(4)[:1].T + np.exp(spread * rng.normal(size=(4, 1))) * rng.normal(size=(4, 3))
        cells = {"setting": "s", "method": list("abcd"), "mean": x.mean(1), "sd": x.std(1, ddof=1), "runs": 3}
        table = pd.DataFrame(cells).assign(step=1e-4, sd_step=1e-4, bold=False, underlined=False, line=0)
        text = compare_printed(PrintedTable(table, smaller=False)).to_latex()
        missed += r"a & \textbf" not in text
    assert stats.binomtest(missed, 200).proportion_ci(0.99).low < 0.05


def test_what_is_bold_in_a_paper_does_not_matter_and_what_lacks_is_said(tmp_path):
    (file := tmp_path / "table.md").write_text(
        "| | acc | loss | hits |\n|---|---|---|---|\n| A_1 | **91.0 ± 0.5** | 0.31 ± 0.01 | 5 |\n"
        "| B | 62.0 ± 1.4 | 0.92 ± 0.02 | **7** |\n| C | 91.2 ± 0.7 | | 6 |\n"
    )
    out = tmp_path / "honest.tex"
    done = CliRunner().invoke(app, ["compare", str(file), "--runs", "3", "--spread", "sd", "--out", str(out)])
    assert done.exit_code == 0
    assert done.stdout.rstrip().endswith("honest.tex")
    assert [line for line in out.read_text().splitlines() if line.endswith(r"\\")] == [
        r"Method & acc & loss $\downarrow$ & hits \\",
        r"A\_1 & \textbf{91.0 $\pm$ 0.5} & \textbf{0.31 $\pm$ 0.01} & 5 \\",
        r"B & 62.0 $\pm$ 1.4 & 0.92 $\pm$ 0.02 & 7 \\",
        r"C & \textbf{91.2 $\pm$ 0.7} & -- & 6 \\",
    ]
    assert "over 3 runs." in out.read_text()
    assert "Without deviations nothing is told apart, and nothing is bold, in hits." in out.read_text()
    order = compare_printed(read_printed("| | a |\n|---|---|\n| A | 1.0 |\n| B | **2.0** |")).to_latex()
    assert r"\textbf" not in order
    assert "No deviations are known" in order
    refused = CliRunner().invoke(app, ["compare", str(file), "--runs", "3", "--spread", "sd", "--format", "markdown"])
    assert "must be text, latex or csv" in refused.stderr
