"""The page on a questionnaire shows what its commands print."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedstat.cli import app
from tests.support.psych import bfi

PAGE = Path(__file__).parents[2] / "docs" / "questionnaire.md"
BLOCKS = re.findall(r"```console\n\$ fedstat (.*?)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize(("command", "shown"), BLOCKS)
def test_its_commands_print_what_it_shows(command, shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bfi().to_csv("bfi.csv", index=False)
    printed = CliRunner().invoke(app, shlex.split(command)).output
    printed = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed
