"""Impossible requests are rejected before anything is measured or written.

The message names the fault.
"""

import shlex
import stat
from pathlib import Path

import pytest

from journals import build_sized_result, write_journal
from kinds import Cli
from sweeps import build_plan, write_sweep
from tfbench.runs import session
from tfbench.store.store import Store

# runs of one network, at batch sizes 32 and 128
FIRST = f"{9:032x}"
SECOND = f"{12:032x}"

MINE = """
[recipe]
title = "Mine"
source = "this test"

[model]
name = "mlp"
hidden_units = [4]

[dataset]
name = "mnist"
data = "synthetic"

[training]
global_batch_size = 100
epochs = 1
"""
FILES = {
    "mine.toml": MINE,
    "there.toml": "mine",
    "no_toml.toml": MINE.replace('"Mine"', '"Mine'),
    "page.html": "<html>my own page</html>",
    "half.json": "{",
    "nine.json": '{"format_version": 9}',
}

# A command without "tfbench", and words of the message.
REJECTED = {
    "lst": "No such command 'lst'",
    "show": "Missing argument 'RECIPE'.",
    "show mnist_mpl": "unknown recipe 'mnist_mpl'. Did you mean 'mnist_mlp'?",
    "show nowhere/x.toml": "nowhere/x.toml: no such file.",
    "show /dev/null": "/dev/null: is not a file.",
    "show mnist_mlp --toml --format json": "--toml and --format json exclude each other",
    "runs --store there.toml": "store there.toml: is a file, and a store is a folder.",
    "runs 0000 --status failed": "RUN names one: leave --status out.",
    f"diff {FIRST} {FIRST}": f"{FIRST} and {FIRST} are the same run, {FIRST}. Name two.",
    f"diff {FIRST} 0000": "matches 10 runs. Use the id of one:",
    f"diff {FIRST} {SECOND} --store empty": "store empty: holds no runs.",
    "compare": "Name runs, a sweep (--sweep @last), or use --all.",
    "compare --sweep @last --recipe x": "--recipe chooses among all runs.",
    "compare --sweep @last --baseline mirored": "--baseline 'mirored': no such setup.",
    "compare --all --recipe other": "no runs to compare.",
    "report --sweep @last -o nowhere/r.html": "nowhere/r.html: cannot be written: No such file",
    "report --sweep @last -o page.html": "page.html: is there already. Name another file",
    "report --sweep @last -o mlruns": "mlruns: is a folder. Name a file.",
    f"run {'x' * 300}": "File name too long",
    "run": "name a recipe (`tfbench list` shows them), or a run to go on with.",
    "run no_toml.toml": "no_toml.toml: is not valid TOML: Illegal character",
    "run mine.toml --epochs many": "'many' is not a valid integer",
    "run mine.toml --epochs 0": "--epochs: must be greater than or equal to 1. Received: 0.",
    "run mine.toml --set nonsense": "--set nonsense: must be SECTION.KEY=VALUE",
    "run mine.toml --set training.epochs=[": "--set training.epochs=[: the value is not valid TOML",
    "run mine.toml --data-dir ~nobody-of-that-name/x": "no such home directory",
    "run mine.toml --store 'what?'": "'?'",
    "run mine.toml --tracking-uri foo://host": "tracking URI of foo",
    "run mine.toml --until-precise 200%": (
        "more than 0 and at most 0.99, such as 2% or 0.02. Received: 200%"
    ),
    "run mine.toml --until-precise 2% --repeats 2": (
        "--repeats: must be 3 or more with --until-precise. Received: 2."
    ),
    "run mine.toml --vary-seed": "--vary-seed needs --repeats or --until-precise",
    "run --resume @last --repeats 3": "--resume continues one run as it was: leave --repeats out.",
    "check sine_lstm": "Either compare with a baseline (--baseline FILE), or save one (--save FILE).",
    "check sine_lstm --save a.json --allow-unequal": (
        "--save compares nothing: leave --allow-unequal out"
    ),
    "check sine_lstm --save a.json --fail-above 1%": "leave --fail-above out",
    "check sine_lstm --save a.json --repeats 1": (
        "Invalid value for '--repeats': 1 is not in the range"
    ),
    "check sine_lstm --save no/a.json": (
        "folder no is not there, or cannot be written to. Name a file"
    ),
    "check sine_lstm --save .": (
        "--save .: it is a folder. Name a file, for example baseline.json."
    ),
    "check sine_lstm --baseline nine.json --fail-above -1%": "--fail-above",
    "check sine_lstm --baseline b.json": (
        "baseline b.json: cannot be read: No such file or directory."
    ),
    "check sine_lstm --baseline half.json": (
        "at line 1 column 1. To make one, use --save FILE instead of --baseline."
    ),
    "check sine_lstm --baseline nine.json": (
        "baseline nine.json: is not a baseline of this version of tfbench: nine.json.format_version:"
        " must be one of 1. Received: 9."
    ),
    "sweep": "Missing argument 'RECIPE'. `tfbench list` shows the recipes; --quick needs none.",
    "sweep mine.toml --full --seconds 3": (
        "--full trains to the recipe's epochs: leave --seconds out"
    ),
    "sweep mine.toml --run-timeout 0": (
        "must be more than 0 and at most 1e+09, such as 90s, 10m or 1.5h"
    ),
    "sweep mine.toml --run-timeout 1d": "such as 90s, 10m or 1.5h",
    "sweep mine.toml --resume @last": "--resume uses the plan of the sweep: leave RECIPE out",
    "sweep --resume @last --store empty": "sweep '@last': not in store empty.",
    "sweep mine.toml --vary training.global_batch_size=32,70000": (
        "must be at most 60000, the training samples"
    ),
    "sweep mine.toml --batch-size 32 --vary training.global_batch_size=64": (
        "training.global_batch_size: is varied twice. Give all of its values once."
    ),
    "sweep mine.toml --setup default --plan x --ray auto": "--ray and --plan exclude each other",
    "sweep mine.toml --setup default --plan x --time-budget 5m": "leave --time-budget out",
    "sweep mine.toml --setup default --plan there.toml": "there.toml: is there already.",
    "sweep mine.toml --plan x": "Missing option '--setup'",
    "sweep --task 0": "--task makes a task of a plan",
    "sweep --plan x --task 0 --dry-run --setup default --resume abc": (
        "leave --setup, --dry-run, --resume out."
    ),
    "crossover mine.toml --vary model.hidden_units=[[1,2],[3,4]] --between default one_device": (
        "a crossover needs one --vary of whole numbers"
    ),
    "crossover mine.toml --vary training.global_batch_size=1..8 --setup default": (
        "Name the two setups"
    ),
    "crossover mine.toml --vary training.global_batch_size=1..8 --between default default": (
        "both setups are"
    ),
    "crossover mine.toml --vary training.precision=1..8 --between default one_device": (
        "precision: must be one of"
    ),
    "crossover mine.toml --vary training.global_batch_size=8..8 --between default 'mirrored cpu:0,cpu:1'": (
        "two or more multiples of 2"
    ),
    "scale mine.toml --replicas 2 --modes data,layers": (
        "--modes: must be some of data,workers,model,hybrid."
    ),
    "scale mine.toml --replicas 2 --modes data,model": (
        "strategy model: not on backend tensorflow: "
    ),
    "scale mine.toml --replicas 1": (
        "--replicas: must be numbers such as 1,2,4, one of them above 1. Received: 1."
    ),
    "scale mine.toml --devices cpu --replicas 1,128": "devices: cpu:0 to cpu:63. Received: 'cpu:",
    "scale mine.toml --devices cpu --replicas 2 --set training.compiler=xla": (
        "XLA cannot compile a step over several"
    ),
    "run mine.toml --strategy mirrored --workers 2": (
        "--strategy multi_worker has: leave --workers out"
    ),
    "run mine.toml --strategy multi_worker": "--set distribution.num_workers=N starts them on this machine",
    "run mine.toml --strategy multi_worker --coordinator a:1,b:1 --num-workers 2 --worker-index 1 --fast": (
        "on several machines, a command makes one run: leave --fast out."
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recipes, of which some are wrong, and a store with two runs and a sweep."""
    folder = tmp_path_factory.mktemp("rejected")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    store = Store(folder / "mlruns")
    write_sweep(store, build_plan(sweep_id="5eed"), lambda planned: 1000.0)
    for index in (9, 12):
        write_journal(store, build_sized_result(index))
    return folder


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns the size and the time of each file, and of a folder only that it is there.

    Summaries of runs may be made when these are looked at.
    """
    found = {
        str(path): path.stat()
        for path in folder.rglob("*")
        if not path.name.endswith(".brief.json")
    }
    return {
        name: (0, 0) if stat.S_ISDIR(one.st_mode) else (one.st_size, one.st_mtime_ns)
        for name, one in found.items()
    }


@pytest.mark.parametrize("line", REJECTED)
def test_what_cannot_be_is_rejected_at_once(
    tfbench: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(session, "execute_run", pytest.fail)
    before = files_in(folder)
    done = tfbench(*shlex.split(line))
    assert done.exit_code == 2
    assert bool(done.stdout) == line.endswith("format json")
    assert done.stderr.count("Error: ") == 1 and "Traceback" not in done.stderr
    assert REJECTED[line] in " ".join(done.stderr.split())
    assert files_in(folder) == before
