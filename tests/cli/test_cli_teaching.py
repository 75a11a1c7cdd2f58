"""The command line teaches: a folder that runs, help that ends in examples, errors that say what to type next."""

import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.cli._doctor import EXTRAS
from fedstat.experiment import config, dealing
from simulations.captions import plain

ROOT = Path(__file__).parents[2]
GROUP = typer.main.get_command(app)
COMMANDS = {
    **{(name,): command for name, command in GROUP.commands.items()},
    **{("data", name): command for name, command in GROUP.commands["data"].commands.items()},
}
EXAMPLES = [
    (words, line) for words, command in {(): GROUP, **COMMANDS}.items() for line in command.epilog.split("\n\n")[1:]
]
#: What takes no data, no network and no seconds.
CHEAP = (
    "fedstat doctor",
    "fedstat new mine",
    "fedstat new my_claim --claim",
    "fedstat version",
    "fedstat data list",
    "fedstat data list digits",
)


def fedstat(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)


def flat(text):
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize(
    ("words", "option", "out"),
    [
        (("factor", "a.csv"), "--scores", "link.csv"),
        (("compare", "a.csv"), "--out", "folder/../a.csv"),
        (("assess", "a.csv"), "--out", "a.csv"),
        (("assess", "folder/assessment.csv"), "--out", "folder"),
    ],
)
def test_no_command_writes_over_what_it_reads(tmp_path, monkeypatch, words, option, out):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    text = "method,seed,accuracy,outcome,probability\nA,0,0.5,0,0.1\nA,1,0.6,1,0.7\nA,2,0.7,0,0.2\n"
    for path in (Path("a.csv"), Path("folder", "assessment.csv")):
        path.write_text(text)
    Path("link.csv").symlink_to("a.csv")
    done = fedstat(*words, option, out)
    assert done.exit_code == 1
    assert f"{option} must name another file than {words[1]}, which is read" in flat(done.output)
    assert Path(words[1]).read_text() == text


def test_a_path_that_is_something_else_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("a.csv").write_text("method,seed,accuracy\nA,0,0.5\nA,1,0.6\nB,0,0.7\nB,1,0.7\n")
    for words, told in (
        (("compare", "a.csv", "--out", "folder"), "folder is a folder; name a file."),
        (("judge", "a.csv"), "a.csv is no Python file; name a Python file with claims"),
    ):
        done = fedstat(*words)
        assert done.exit_code == 1
        assert told in flat(done.output)
    assert {file.name for file in tmp_path.iterdir()} == {"folder", "a.csv"}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes it")
def test_a_closed_output_is_no_traceback():
    command = shlex.join([sys.executable, "-c", "from fedstat.cli import app; app()", "compare", "none.csv"]) + " >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: none.csv does not exist")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_ends_in_examples_of_its_own_command(words):
    lines = [line.strip() for line in fedstat(*words, "--help").output.splitlines() if line.strip()]
    heading = max(i for i, line in enumerate(lines) if line in ("Example:", "Examples:"))
    shown = flat(" ".join(lines[heading + 1 :]))
    own = [line for its, line in EXAMPLES if its == words]
    assert shown == flat(" ".join(own))
    assert own
    assert all(line.startswith(" ".join(("fedstat", *words))) for line in own)


@pytest.mark.parametrize("words", [words for words, command in COMMANDS.items() if command.callback], ids=" ".join)
def test_help_says_what_every_argument_is(words):
    """What typer 0.20 has to say of them was lost under click 8.5."""
    shown = flat(fedstat(*words, "--help").output)
    for kind in get_type_hints(inspect.unwrap(COMMANDS[words].callback), include_extras=True).values():
        for told in getattr(kind, "__metadata__", ()):
            if isinstance(told, typer.models.ArgumentInfo):
                assert told.help
                assert flat(told.help) in shown


@pytest.mark.parametrize("line", sorted({line for _, line in EXAMPLES}))
def test_examples_are_understood_and_the_cheap_ones_run(line, tmp_path, monkeypatch):
    """Files that they name are made first, so that all but their content is checked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDSTAT_DATA", str(tmp_path / "data"))
    _, *arguments = shlex.split(line)
    if line in CHEAP:
        done = fedstat(*arguments)
        assert done.exit_code == 0, done.output
        return
    for word in arguments:
        if word.endswith((".toml", ".csv", ".safetensors")):
            (tmp_path / word).parent.mkdir(exist_ok=True)
            (tmp_path / word).touch()
        elif word.startswith("runs/"):
            (tmp_path / word).mkdir(parents=True)
    found, words = GROUP, list(arguments)
    context = typer.Context(GROUP)
    while hasattr(found, "commands"):
        name = words.pop(0)
        found = found.commands[name]
    found.make_context(name, words, parent=context)  # raises where an option or argument is not understood


@pytest.mark.slow
def test_a_new_folder_runs_and_its_method_obeys_the_laws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = fedstat("new", "sub/mine")
    assert made.exit_code == 0, made.output
    assert sorted(p.name for p in (tmp_path / "sub").rglob("*")) == ["README.md", "mine", "mine.py", "mine.toml"]
    run, compare, report = [line.split()[1:] for line in made.output.splitlines() if line.startswith("  fedstat ")]
    done = fedstat(*run, "--seeds", 2, "--set", "rounds=4", "--set", "evaluation.last=2")
    assert done.exit_code == 0, done.output
    assert re.search(r"^round 4 of 4: test accuracy: FedAvg [\d.]+, Local [\d.]+, Mine [\d.]+ ", done.output, re.M)
    assert set(fs.load("runs/mine/run").config["methods"]) == {"FedAvg", "Local", "Mine"}
    for command in (compare, report):
        done = fedstat(*command)
        assert done.exit_code == 0, done.output
    assert Path("mine.pdf").read_bytes().startswith(b"%PDF")
    fs.testing.check_method(fs.methods.find("sub/mine/mine.py:MyMethod")())
    told = (tmp_path / "sub/mine/README.md").read_text()
    assert "{" not in told
    assert "fedstat run mine.toml" in told


def test_a_new_claim_is_judged_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = fedstat("new", "my_claim", "--claim")
    (command,) = [line.split()[1:] for line in made.output.splitlines() if line.startswith("  fedstat ")]
    judged = fedstat(*command, "EX-01")
    assert judged.exit_code == 0, judged.output
    assert "◒ needs-a-condition" in judged.output
    assert "the limit 4/7 differs from the optimum 2/3" in flat(judged.output)
    again = fedstat("new", "my_claim.py", "--claim")
    assert "try `fedstat new my_claim-2 --claim`" in flat(again.output)


def test_new_refuses_what_is_there_and_leaves_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    done = fedstat("new", "mine")
    assert done.exit_code == 1
    assert "mine exists already, and nothing in it was touched; try `fedstat new mine-2`." in flat(done.output)
    assert "try `fedstat new a-b`" in flat(fedstat("new", "a b").output)
    assert [p.name for p in tmp_path.rglob("*")] == ["mine", "notes.txt"]


def test_version_doctor_and_completion(tmp_path, monkeypatch):
    assert fedstat("--version").output.strip() == fs.__version__
    monkeypatch.setenv("FEDSTAT_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("fedstat.cli._doctor._version", lambda package: None if package == "ray" else "1.2.3")
    done = fedstat("doctor")
    assert done.exit_code == 0, done.output
    for words in ("Python ", "torch 1.2.3", "cpu: ", "cores: ", "(FEDSTAT_DATA; there is no such folder)"):
        assert words in done.output
    assert re.search(r"there: digits$", done.output, re.MULTILINE)
    assert "`fedstat data fetch cifar10` gets one" in done.output
    assert "ray: MISSING; pip install 'fedstat[ray]'" in done.output
    monkeypatch.setenv("_FEDSTAT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "fedstat re")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = CliRunner().invoke(app, [], prog_name="fedstat")
    assert done.output.split() == ["report"]


def test_doctor_knows_all_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, (packages, _) in EXTRAS.items():
        assert {re.match(r"[\w-]+", wanted)[0] for wanted in extras[extra]} - {"click"} == set(packages)
    assert set(extras) - set(EXTRAS) <= {"report", "test", "dev", "docs"}


OWN = """
rounds = 1
[data]
file = "patient.csv"
[partition]
kind = "group"
[model]
name = "mlp"
[method.Local]
[training]
lr = 0.1
"""
WRONG = {
    ("rn",): "No such command 'rn'. Did you mean 'run'?",
    ("run", "--sedes", "3"): "--seeds",
    ("run", "a/exmaple.toml"): "did you mean a/example.toml?",
    ("run", "aa/example.toml"): "nor does the folder aa; did you mean a?",
    ("run", "own/data.toml"): "own/patients.csv?",
    ("run", "a"): "is a directory; name a file in it: a/example.toml.",
    ("run",): "For example: fedstat run digits.toml --seeds 6",
    ("report", "runs/x"): "For example: fedstat report runs/digits --out digits.pdf",
    ("compare", "runs"): "there are runs in it: runs/mine.",
    ("compare", "runs/main"): "did you mean runs/mine?",
    ("compare", "runs/mine/summary.csv"): "`fedstat compare runs/mine`",
    ("data", "list", "cifar11"): "(did you mean cifar10?). `fedstat data list` names all.",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_errors_say_what_to_type_next(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("a/example.toml", "own/patients.csv", "runs/mine/experiment.toml", "runs/mine/run/config.toml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "own/data.toml").write_text(OWN)
    pd.DataFrame({"method": ["A"], "mean": [1.0]}).to_csv("runs/mine/summary.csv", index=False)
    done = fedstat(*arguments)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output
    assert WRONG[arguments] in flat(done.output)
    assert done.output.count("Did you mean") <= 1


def test_help_of_a_configuration_is_short_and_names_every_key():
    said = config.__doc__
    own = (config.General, config.Source, dealing.Dealing, dealing.Tested, config.Evaluation, *dealing.KINDS.values())
    for cls in own:
        for key in fields(cls):
            assert re.search(rf"\b{key.name}\b", said), f"{cls.__name__}.{key.name}"
    assert all(f'"{kind}"' in said for kind in dealing.KINDS)
    import pydoc

    assert len(pydoc.render_doc(config).splitlines()) < 150


def test_captions_are_read_as_text():
    text = [{"func": "text", "text": "mean "}, {"func": "equation", "body": {"func": "attach", "base": {"text": "η"},
            "b": {"text": "l"}}}, {"func": "space"}, {"func": "smartquote", "double": False}]  # fmt: skip
    assert plain({"func": "sequence", "children": text}) == "mean η_l ’"


@pytest.mark.slow
def test_a_study_leaves_figures_that_can_be_shown_elsewhere(tmp_path, monkeypatch, capsys):
    from simulations.__main__ import main

    monkeypatch.setattr(sys, "argv", ["simulations", "complexity", "--scale", "smoke", "--out", str(tmp_path)])
    main()
    folder = tmp_path / "smoke" / "complexity"
    starts = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    for end, start in starts.items():
        assert (folder / f"complexity{end}").read_bytes().startswith(start)
    caption = (folder / "complexity.txt").read_text()
    assert caption.startswith("Complexity term of Theorem 2")
    assert "fedstat, study complexity" in caption
    assert "complexity.txt" in capsys.readouterr().out


def test_the_list_and_the_help_lead_to_a_figure_by_its_number(monkeypatch, capsys):
    from simulations.__main__ import main

    monkeypatch.setattr(sys, "argv", ["simulations", "list"])
    main()
    found = [line.split() for line in capsys.readouterr().out.splitlines() if "Figure 6 " in line]
    drawn = {line[0].rstrip(","): line[line.index("simulations") + 1] for line in found}
    assert drawn == {"FedSplit/FedFac": "decompositions", "Factorized-FL": "factorized", "FedDecomp": "feddecomp"}
    monkeypatch.setattr(sys, "argv", ["simulations", "fedfak"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "did you mean fedfac?" in flat(capsys.readouterr().err)
    monkeypatch.setattr(sys, "argv", ["simulations", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "decompositions The paper’s decompositions, as printed (FedSplit/FedFac, Figures 6 and 7)" in flat(
        capsys.readouterr().out
    )
    assert "`python -m simulations list`" in flat(fedstat().output)


def test_a_claim_on_training_says_where_tables_lie():
    folder = str(ROOT / "theory_checks" / "fedsplit")
    done = fedstat("judge", folder, "FS-09", "--cases", 1)
    assert done.exit_code == 1
    assert f"`fedstat judge {folder} FS-09 --results reports/results`" in flat(done.output)
