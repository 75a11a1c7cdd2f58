"""The front page does what it says: its programs and commands run as they are printed, in a folder of their own."""

import hashlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from fedstat.claims import read_ledger
from fedstat.cli import app
from fedstat.data.datasets import cifar10
from simulations.feddecomp.study import SCALES
from simulations.published import printed as printed_rows
from simulations.split.effects import effects
from simulations.split.numbers import findings
from simulations.studies import tell
from tests.support import dataset_files as files
from tests.support.matrices import THURSTONE, THURSTONE_NAMES
from theory_checks import LEDGER, PICTURE
from theory_checks._overview import groups, write_overview

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text()
COMMAND_PAGE = (ROOT / "docs" / "commands.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE + COMMAND_PAGE, re.DOTALL | re.MULTILINE)
PROGRAMS = [code for language, code in BLOCKS if language == "python"]
(CONFIGURATION,) = (code for language, code in BLOCKS if language == "toml")
COMMANDS = [
    line.partition("#")[0].strip() for language, code in BLOCKS if language == "bash" for line in code.splitlines()
]
INSTALLATIONS = [line for line in COMMANDS if "pip install" in line]
TOOLS = [line for line in COMMANDS if line.startswith("fedstat ")]
CLAIMS = [line for line in COMMANDS if line.startswith("python -m theory_checks")]
STUDIES = [line for line in COMMANDS if line.startswith("python -m simulations")]

#: What does not train.
QUICK = ("fedstat data", "fedstat factor", "fedstat compare theirs", "fedstat compare mine", "fedstat assess")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder with the configurations, claims, tables and checkpoint that the commands name."""
    rng = np.random.default_rng(0)
    for folder in ("simulations", "theory_checks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    tests = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 9)) + 0.5 * rng.normal(size=(60, 9))
    pd.DataFrame(tests, columns=THURSTONE_NAMES).to_csv(tmp_path / "tests.csv", index=False)
    answers = pd.DataFrame(np.digitize(tests[:, :6], [-1, 0, 1]), columns=list("abcdef"))
    answers.to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame(THURSTONE, index=THURSTONE_NAMES, columns=THURSTONE_NAMES).to_csv(tmp_path / "r.csv")
    save_file({"conv1.weight": torch.from_numpy(rng.normal(size=(6, 3, 5, 5)))}, tmp_path / "model.safetensors")
    results = pd.DataFrame(
        [(m, s, k, 0.7 + 0.01 * rng.normal()) for m in ("A", "B") for s in range(3) for k in range(2)],
        columns=["method", "seed", "client", "accuracy"],
    )
    results.to_csv(tmp_path / "theirs.csv", index=False)
    results.set_axis(["algo", "run", "client", "acc"], axis=1).to_csv(tmp_path / "mine.csv", index=False)
    chance = np.tile(rng.random(80), 2)  # the same patients under both methods
    predicted = {
        "method": np.repeat(["A", "B"], 80),
        "outcome": (chance > 0.6).astype(int),
        "probability": rng.random(160),
    }
    pd.DataFrame(predicted).to_csv(tmp_path / "predictions.csv", index=False)
    rows = r"M & a \\ Ours & \textbf{82.3} $\pm$ 0.4 \\ FedAvg & 81.9 $\pm$ 0.6 \\"
    (tmp_path / "table.tex").write_text(rf"\begin{{tabular}}{{lc}} {rows} \end{{tabular}}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which judging adds the folder of a claim
    monkeypatch.setenv("FEDSTAT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def images(clone, monkeypatch):
    """Noise in the form in which CIFAR-10 is published, so that nothing is fetched."""
    raw = files.tar(files.cifar10_files(files.binary_batch, records=1000)[0])
    (published,) = cifar10.SOURCE.downloads
    files.put(clone / "data", {f"{cifar10.SOURCE.folder}/{published.file}": raw})
    noise = replace(published, size=len(raw), sha256=hashlib.sha256(raw).hexdigest())
    monkeypatch.setattr(cifar10, "SOURCE", replace(cifar10.SOURCE, downloads=(noise,)))


def test_the_picture_and_the_finding_are_what_ledger_and_tables_say(tmp_path):
    """The words are typed; what they say is computed here."""
    write_overview(tmp_path / "new.svg")
    new, kept = (re.findall(r"<text[^>]*>([^<]+)", file.read_text()) for file in (tmp_path / "new.svg", PICTURE))
    assert new == kept, "run python -m theory_checks --update with the ids of the claims that changed"
    drawn = [claim["id"] for group in groups(read_ledger(LEDGER)) for *_, claims in group for claim in claims]
    assert sorted(drawn) == sorted(read_ledger(LEDGER)), "every statement has one mark"

    folder = ROOT / "reports" / "results" / "split"
    tables = {file.stem: pd.read_csv(file) for file in folder.glob("*.csv")}
    found, config = findings(tables), json.loads((folder / "config.json").read_text())
    local, control = found["Local"], found["control"]
    every = effects(tables)
    gains = [-e.mean for e in every.values() if (e.metric, e.first, e.second) == ("accuracy", "Local", "true")]
    page = " ".join(PAGE.split())
    assert f"gains {-local.mean:.2f} points of accuracy (95% limits {-local.high:.2f} to {-local.low:.2f})" in page
    assert f"in none is the estimate above {sorted(gains)[-2]:.2f}." in page
    assert f"By log-loss the gain is {-found['log-loss'].mean:.2f} nats." in page
    assert f"worth {control.mean:.1f} points ({control.low:.1f} to {control.high:.1f})" in page
    once = every["accuracy", "p = 0.9, α = 0.8", "true", "random, once"]
    assert f"the right ones are {once.mean:.2f} points ({once.low:.2f} to {once.high:.2f}) ahead" in page
    assert config["samples"] == 8 * config["control_samples"]

    _, numbers, found = tell("resnet8", ROOT / "reports" / "results" / "resnet8")
    per, avg = (found[f"best accuracy {other}"] for other in ("FedPer", "FedAvg"))
    balanced = found["balanced_accuracy FedAvg"]
    assert (numbers["setup"]["rounds"], SCALES["paper"].experiments[0].setup.rounds) == (100, 300)
    printed = {row["method"]: float(row["accuracy"]) for row in printed_rows("feddecomp", "table_1")
               if (row["data"], row["dirichlet"]) == ("CIFAR-10", "0.5")}  # fmt: skip
    assert {row["inside"] for row in numbers["paper"]["rows"]} == {"yes"}, "what agrees"
    far = [printed["FedDecomp"] - printed[other] for other in ("FedPer", "FedAvg")]
    (reached,) = (row["ours"].split()[0] for row in numbers["paper"]["rows"] if row["method"] == "FedAvg")
    assert f"{per.mean:.1f} points ({per.low:.1f} to {per.high:.1f}) above FedPer, where" in page
    assert f"prints {far[0]:.1f}. Above FedAvg, which reaches {reached}%, it is {avg.mean:.1f} points" in page
    assert f"({avg.low:.1f} to {avg.high:.1f}); the printed {far[1]:.1f} lies just above these limits" in page
    assert avg.high < far[1] < avg.high + 0.5, "just above the limits"
    assert sorted(printed, key=printed.__getitem__)[-4:-1] == ["pFedSD", "pFedGate", "FedRoD"], "who did not run"
    assert f"{-balanced.mean:.1f} points ahead ({-balanced.high:.1f} to {-balanced.low:.1f})" in page


def run(command):
    """Do one command of `fedstat` in this process."""
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    assert done.output


@pytest.mark.parametrize(
    "program", [pytest.param(code, marks=pytest.mark.slow if "federate(" in code else []) for code in PROGRAMS],
    ids=range(1, len(PROGRAMS) + 1),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")
def test_programs(program, clone, capsys):
    (clone / "program.py").write_text(program)
    runpy.run_path("program.py", run_name="__main__")
    said = capsys.readouterr().out
    assert said
    if "forest.svg" in program:  # the page shows what it prints, and the last digits are the processor's
        (shown,) = (code for language, code in BLOCKS if language == "text")
        assert re.sub(r"[\d.]+", "#", " ".join(said.split())) == re.sub(r"[\d.]+", "#", " ".join(shown.split()))
        assert (clone / "forest.svg").exists()


@pytest.mark.parametrize(
    "command", [pytest.param(line, marks=[] if line.startswith(QUICK) else pytest.mark.slow) for line in TOOLS]
)
def test_commands(command, images):
    if "runs/digits" in command:
        run("fedstat run simulations/configs/digits.toml --set rounds=3")
    whole = command.endswith("judge theory_checks/classics")
    run(f"{command} CL-14" if whole else command)  # the ledger's own tests judge all


@pytest.mark.slow
def test_the_configuration(clone, images):
    (clone / "experiment.toml").write_text(CONFIGURATION)
    own = "class MyMethod(fs.Method):\n    pass\n\ndef second_guess(outputs, y):\n    return 0.0\n"
    (clone / "mine.py").write_text(f"import fedstat as fs\n\n{own}")
    run("fedstat run experiment.toml --dry-run")


@pytest.mark.slow
@pytest.mark.parametrize("command", CLAIMS)
def test_claims_are_judged(command, clone, capsys, monkeypatch):
    """As printed but for long searches, cut to ten cases, and the whole ledger, which its own tests judge."""
    _, _, module, *claims = shlex.split(command.replace(" 10000", " 10"))
    monkeypatch.setattr(sys, "argv", [module, *(claims or ["FS-12"])])
    monkeypatch.delitem(sys.modules, f"{module}.__main__", raising=False)  # runpy warns of what is imported already
    with pytest.raises(SystemExit) as left:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert not left.value.code
    assert re.search(r"^FS-\d+ ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", STUDIES)
def test_studies_run(command, clone):
    """As printed, at the smallest scale."""
    _, *arguments = shlex.split(command.replace("quick", "smoke"))
    done = subprocess.run([sys.executable, *arguments], cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tables and figures: out/" in done.stdout or "Figure 10" in done.stdout


def test_installations_name_what_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for command in INSTALLATIONS:
        _, install, work = (shlex.split(part) for part in command.split(" && "))
        extra = {"reports": "report", "pytest": "test"}[work[-1]]
        assert install[1:] == ["install", "-e", f".[{extra}]", "-c", "constraints.txt"]
        assert (ROOT / "constraints.txt").exists()
        assert extra in extras
        assert work[:2] == [".venv/bin/python", "-m"]


def test_ci_finds_the_two_command_lines_and_says_if_it_does_not():
    found = runpy.run_path(str(ROOT / ".ci" / "readme.py"))["commands"]
    assert found(PAGE) == INSTALLATIONS
    ran = re.findall(r'^python3 \.ci/readme\.py "\$work" (\d)', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert ran == ["1", "2"]
    for changed in (
        PAGE.replace("From a clone, one line each:", "From a clone:"),
        PAGE.replace(INSTALLATIONS[0] + "\n", ""),
        PAGE.replace("-m pytest", "-m unittest"),
    ):
        with pytest.raises(ValueError, match=r"README\.md must have two command lines"):
            found(changed)


def test_no_command_is_left_out():
    assert sorted(COMMANDS) == sorted(INSTALLATIONS + TOOLS + CLAIMS + STUDIES)
    assert {language for language, _ in BLOCKS} == {"bash", "python", "toml", "text"}
