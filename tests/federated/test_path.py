"""How much of fedstat one must read to follow a round, and a run of one round."""

import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

import fedstat as fs

ROOT = Path(fs.__file__).parent
#: Inside functions alone: bodies of modules and classes run when they are imported.
IN_FUNCTION = 1  # inspect.CO_OPTIMIZED


def executed(work, root=ROOT):
    """The lines below a folder that `work` executes, each counted once, by file; in threads as well."""
    lines, before = defaultdict(set), sys.gettrace()

    def enter(frame, event, arg):
        code = frame.f_code
        if not code.co_flags & IN_FUNCTION or not code.co_filename.startswith(str(root)):
            return None
        found = lines[code.co_filename]

        def step(frame, event, arg):
            if event == "line":
                found.add(frame.f_lineno)
            return step

        return step

    threading.settrace(enter)
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)
    return lines


def setting():
    """FedAvg on clients of a two-layer network, as in the examples of the manual."""
    clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    return fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1)


def second_round():
    rounds = fs.rounds(*setting())
    next(rounds)
    return lambda: next(rounds)


def run_of_one_round():
    arguments = setting()
    fs.federate(*arguments, rounds=1, progress=False)  # imports what is imported late
    return lambda: fs.federate(*arguments, rounds=1)


@pytest.mark.parametrize(("make", "files", "lines"), [(second_round, 15, 300), (run_of_one_round, 30, 953)])
def test_a_round_and_a_run_are_read_in_few_files_and_lines(make, files, lines):
    found = executed(make())
    each = "".join(f"\n{len(found[file]):4} {Path(file).relative_to(ROOT)}" for file in sorted(found))
    assert len(found) <= files, each
    assert sum(map(len, found.values())) <= lines, each


def test_lines_count_once_and_in_functions_alone(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("""def first(n):
    for _ in range(n):
        second()
    if n > 3:
        raise ValueError

def second():
    pass

class Third:
    first(3)
""")
    code = compile(file.read_text(), str(file), "exec")
    assert executed(lambda: exec(code, {}), tmp_path) == {str(file): {2, 3, 4, 8}}
