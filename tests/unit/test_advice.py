"""Each error's advice works as typed: it is followed, or a table says why it cannot be here."""

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import click
import keras
import pytest

import searches
from advice import list_advice
from builders import build_environment, build_placement
from following import find_options, follow
from kinds import Cli
from tfbench import backends
from tfbench.backends.device_choice import Placed, choose_devices
from tfbench.backends.tensorflow import placement, several_workers
from tfbench.cli import cli
from tfbench.datasets.sources import synthetic
from tfbench.errors import RecipeError
from tfbench.machine import children
from tfbench.recipe.backend_support import find_lacking
from tfbench.recipe.devices import Device, find_mesh, parse_devices, require_usable
from tfbench.recipe.files import list_recipes, load_recipe
from tfbench.recipe.mesh import lay_out
from tfbench.recipe.tables import list_meanings, parse_override
from tfbench.records.journal import Journal
from tfbench.records.machine import Gpu
from tfbench.records.run import RunRequest
from tfbench.runs import launch, session
from tfbench.sweeps import plan
from tfbench.worker import data, prepared
from tfbench.worker.breakdown import Breakdown

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
global_batch_size = 96
epochs = 1
"""
NET = """
import keras
import numpy as np

def build_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model

def make():
    return np.zeros((64, 4), "float32"), np.arange(64) % 3
"""
DATA = f"{NET}\ndef load_data():\n    return make(), make()\n"
COMPILED = '    model.compile("sgd", loss)\n'
BATCHES = """
def batches():
    while True:
        yield make()

def load_data():
    return {"x": batches(), "steps_per_epoch": 3}
"""
OWN = """
class Own(keras.Model):
    def call(self, x):
        return x

def build_model():
    model = Own()
    model.compile("sgd", "mse")
    return model
"""
FILES = {
    "mine.toml": MINE,
    "net.py": NET,
    "data.py": DATA,
    "plain.py": DATA.replace(COMPILED, "    model.layers[0].supports_jit = False\n"),
    "jit.py": DATA.replace("loss)\n    r", "loss, jit_compile=True)\n    r"),
    "auto.py": DATA.replace("loss)\n    r", 'loss, steps_per_execution="auto")\n    r'),
    "low.py": DATA.replace("Dense(3)", 'Dense(3, dtype="mixed_bfloat16")'),
    "fixed.py": DATA.replace("Input((4,))", "Input((4,), batch_size=8)"),
    "clip.py": DATA.replace('"sgd"', "keras.optimizers.SGD(clipnorm=1.0)"),
    "spec.py": NET.replace("build_model()", "build_model(spec)"),
    "hidden.py": f"from data import *\n{NET}",
    "batches.py": NET + BATCHES,
    "few.py": f"{NET}\ndef load_data():\n    x, y = make()\n    return (x, y), (x[:31], y[:31])\n",
    "weighted.py": f"{NET}\ndef load_data():\n    return ((*make(), np.ones(64)),) * 2\n",
    "bare.py": f"{NET.replace(COMPILED, '')}\ndef load_data():\n"
    "    return ((*make(), np.ones(64)),) * 2\n",
    "own.py": NET + OWN,
    "net.weights.h5": "",
    "text.txt": "a" * 2000,
    "images/train/a/1.jpg": "",
    "images/train/b/1.jpg": "",
    "images/val/a/1.jpg": "",
    "there": "mine",
}
FOREIGN = re.compile(r"`(?:ray|mlflow) [^`]*`|the first with --head|pip install .*")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
KEY = re.compile(r"\b(?:model\.(?!compile\b|load)|dataset\.|training\.|distribution\.)\w+")
Probe = Callable[[RunRequest], Any]


def usable(request: RunRequest) -> None:
    """Checks devices as all commands do."""
    require_usable(request.recipe.distribution, request.recipe.training)


def ready(request: RunRequest) -> None:
    """Makes data and model ready, as the process does that measures."""
    usable(request)
    if request.recipe.training.backend != "tensorflow":
        return
    journal = Journal(Path(f"{request.run_id}.jsonl"))
    try:
        prepared.prepare(request, journal, Breakdown(0), lambda: None)
    finally:
        journal.close()


def loaded(request: RunRequest) -> None:
    data.load_data(request.recipe.dataset, request.data_dir, seed=0)


def over_workers(request: RunRequest) -> None:
    recipe = request.recipe
    chosen = parse_devices(recipe.distribution) or (Device("cpu", 0),)
    several_workers.require_fitting(chosen, recipe.distribution, recipe.training)


def alone(request: RunRequest) -> None:
    if request.recipe.distribution.num_workers is None:
        placement.resolve(request.recipe.distribution, request.recipe.training)


def on_two_gpus(request: RunRequest) -> None:
    distribution = request.recipe.distribution
    gpus = (Device("gpu", 0), Device("gpu", 1))
    takes_all = distribution.strategy == "mirrored"
    choose_devices(distribution, request.recipe.training, gpus, takes_all=takes_all)


def among_workers(request: RunRequest) -> None:
    launch.prepare(request)


def laid_out(request: RunRequest) -> None:
    distribution = request.recipe.distribution
    if distribution.strategy != "mirrored":
        lay_out({"dense/kernel": (4, 3)}, find_mesh(parse_devices(distribution), distribution))


def stateful(request: RunRequest) -> None:
    backend = request.recipe.training.backend
    for problem in find_lacking(backend, carries_state=True, is_option=False):
        raise RecipeError(problem)


class Scenario(NamedTuple):
    """What a user asks for, words of the error before its advice, and what helps to follow it."""

    asked: str
    error: str
    probe: Probe = usable
    filled: Mapping[str, str] = MappingProxyType({})
    before: str = ""  # a command that was called before
    then: str = ""  # what the next error says, where one follows


MINIMAL = "run mine.toml"
TWO = "--devices cpu:0,cpu:1"
JAX = f"{MINIMAL} --backend jax"
WORKERS = f"{MINIMAL} --strategy multi_worker"
SINE = "run sine_lstm --set dataset.order=consecutive"
BATCH = "training.global_batch_size"
SWEEP = "sweep mine.toml --setup 'default cpu:0'"
MADE = f"{SWEEP} --repeats 1"
CHECK = "check mine.toml"
SAVED = f"{CHECK} --save base.json"
SGD = "--set training.optimizer.name=sgd --set training.optimizer"
PLACES = {"HOST:PORT,HOST:PORT": "a:1,b:1", "N": "2", "I": "0"}
NEW = {"--store": "other"}
SCENARIOS = [
    Scenario("run", "name a recipe (`tfbench list`"),
    Scenario(MINIMAL + " --devices gpu --strategy one_device", "takes one. Name it,", on_two_gpus),
    Scenario(
        MINIMAL + " --devices gpu --strategy one_device",
        ", or use --strategy mirrored",
        on_two_gpus,
    ),
    Scenario(
        f"{WORKERS} --workers 2 --set distribution.cross_device_ops=reduction_to_one_device",
        "process. Use auto",
        over_workers,
    ),
    Scenario(
        f"{WORKERS} --workers 2 --set training.compiler=xla",
        "a step over several workers on TensorFlow. Use",
        over_workers,
    ),
    Scenario(
        f"{WORKERS} --workers 2 --set training.precision=mixed_float16",
        "wait forever. Use",
        over_workers,
    ),
    Scenario(
        "check mine.toml --save a.json --strategy multi_worker",
        "takes a process for each worker. Use",
        alone,
        PLACES,
    ),
    Scenario(f"{MINIMAL} {TWO}", "Use --strategy mirrored for several"),
    Scenario(f"{MINIMAL} --devices cpu:1", "Use --strategy one_device for it"),
    Scenario(
        f"{JAX} --strategy hybrid {TWO} --set distribution.mesh={{data=2,model=2}}",
        "Name as many with --devices",
        usable,
        {"--devices": "cpu:0,cpu:1,cpu:2,cpu:3"},
    ),
    Scenario(
        f"{MINIMAL} --strategy mirrored {TWO} --set training.compiler=xla",
        "variables on a different device). Use",
    ),
    Scenario(
        f"{MINIMAL} --strategy one_device --devices cpu:1 --set training.compiler=xla",
        "They are one processor: use",
    ),
    Scenario(
        f"{MINIMAL} --devices cpu:0 --set distribution.cross_device_ops=nccl", "GPUs only. Use"
    ),
    Scenario(
        f"{MINIMAL} --strategy mirrored --devices cpu:0,cpu:1,cpu:2,cpu:3,cpu:4", "replicas. Use"
    ),
    Scenario(f"{JAX} --strategy one_device", "it places on one device by itself"),
    Scenario(f"{JAX} --strategy model {TWO}", "would be split. Use", laid_out),
    Scenario(
        f"{JAX} --strategy model {TWO} --set distribution.mesh={{data=2}}",
        "does not split batches. Use",
    ),
    Scenario(
        f"{MINIMAL} --backend torch --set training.data_on_device=true", "must be false on backend"
    ),
    Scenario(
        f"{MINIMAL} --strategy mirrored --set training.data_on_device=true", "on every one. Set it"
    ),
    Scenario(
        f"{MINIMAL} --set training.data_on_device=true --set dataset.name=cifar10 --set dataset.crop=24",
        "cut anew in every epoch. Set",
        ready,
    ),
    Scenario(
        f"{MINIMAL} --set training.data_on_device=true --set training.compiler=eager",
        "loop are Keras's. It has",
        ready,
    ),
    Scenario(
        f"{MINIMAL} --set dataset.name=cifar10 --set dataset.views=9", "needs a crop, such as"
    ),
    Scenario(f"{SINE} --global-batch-size 5", "from batch to batch. Received: "),
    Scenario(
        f"{SINE} --set model.stateful=true --set training.validation_batch_size=7",
        "training.validation_batch_size: must be the global_batch_size",
    ),
    Scenario(
        f"{SINE} --set model.stateful=true --global-batch-size 7 --set dataset.num_rows=7",
        "evaluated, since a stateful model",
    ),
    Scenario(f"{SINE} --backend jax --set model.stateful=true", "Use --set model.stateful=false"),
    Scenario(f"{MINIMAL} --backend jax", "Use --backend tensorflow", stateful),
    Scenario(
        f"{MINIMAL} --set training.compiler=xla --set training.deterministic=true", "asked for. Use"
    ),
    Scenario(f"{MINIMAL} --backend torch --set training.steps_per_execution=2", "Use 1, or"),
    Scenario(f"{JAX} --set training.intra_op_threads=2", "Set both to 0"),
    Scenario(
        f"{MINIMAL} {SGD}.learning_rate_schedule.name=CosineDecay --set training.optimizer.schedule={{at=[0.5],divide_by=10}}",
        "does not go with schedule or groups. Leave one",
    ),
    Scenario(
        f"{MINIMAL} {SGD}.schedule=3",
        "Set one of its keys, such as",
        usable,
        {"VALUE": "[0.5]"},
        "",
        "divide_by: missing",
    ),
    Scenario(f"{MINIMAL} --set model.hidden_units=4", "must be a list, such as"),
    Scenario(f"{MINIMAL} --set nonsense", "must be SECTION.KEY=VALUE"),
    Scenario(f"{MINIMAL} --run-timeout 1d", " and at most "),
    Scenario(f"{MINIMAL} --repeats 2 --until-precise 2%", "with --until-precise. Received"),
    Scenario(
        f"{MINIMAL} --vary-seed",
        "needs --repeats or --until-precise. For",
        usable,
        {"--repeats": "2", "--until-precise": "20%", "--seed": "3"},
    ),
    Scenario(f"{MINIMAL} --store what?", "of a database. Choose another", usable, NEW),
    Scenario("runs --store there", "Name another one with --store", usable, NEW),
    Scenario("diff a b --store other", "holds no runs. `", usable, {"RECIPE": "mine.toml"}),
    Scenario("ui --store other", "holds no runs yet. `", usable, {"RECIPE": "mine.toml"}),
    Scenario("run mnist_mpl", " `tfbench list` shows the recipes. To"),
    Scenario(
        "run net.weights.h5",
        "then tfbench run FILE",
        usable,
        {"FILE.py:FUNCTION": "data.py:build_model"},
    ),
    Scenario(f"{MINIMAL} --set model.name=data.py:build_model", "If you trust it, allow it"),
    Scenario("help nonsense", "is not a command. "),
    Scenario(
        "show mine.toml --set dataset.data=real --set dataset.name=data.py:load_data",
        "To print the recipe, add",
    ),
    Scenario("show mine.toml", "s. Add --toml"),
    Scenario(
        "show mine.toml --toml --format json",
        "exclude each other. Leave --toml",
        then="not built within",
    ),
    Scenario("run data.py:build_model --data synthetic", "knows its shapes and sizes. Received"),
    Scenario("run jit.py:build_model", "Say which counts", ready),
    Scenario("run auto.py:build_model", "while it trains. Use", ready, {"N": "4"}),
    Scenario("run low.py:build_model", "Use --set training.precision=", ready),
    Scenario("run fixed.py:build_model", "per replica. Use --global-batch-size", ready),
    Scenario(
        f"run fixed.py:build_model --strategy mirrored {TWO}",
        "per replica. Use --global-batch-size",
        ready,
    ),
    Scenario(
        "run plain.py:build_model --set training.compiler=xla --set training.feed=pipeline",
        "on this device. Use",
        ready,
    ),
    Scenario(
        f"run clip.py:build_model --strategy mirrored {TWO}", "before it adds them up. Use", ready
    ),
    Scenario(
        "run bare.py:build_model",
        "no loss for this data. Call",
        ready,
        {},
        "",
        "data set mnist: not in",
    ),
    Scenario("run spec.py:build_model", "there is no data. Add", ready, {"FILE.py": "data.py"}),
    Scenario(
        "run own.py:build_model",
        "tells its shapes. Give",
        ready,
        {"FILE.py": "data.py"},
        "",
        "does not suit the data",
    ),
    Scenario("run hidden.py:build_model", "which nobody named. Use", ready),
    Scenario("run batches.py:build_model", "and the run counts", ready),
    Scenario(
        "run batches.py:build_model --global-batch-size 64 --set training.steps_per_execution=2",
        "must divide the steps_per_epoch",
        ready,
    ),
    Scenario(
        f"run few.py:build_model --epochs 1 --strategy mirrored {TWO}",
        "Use --set training.validation_batch_size=",
        ready,
    ),
    Scenario(
        "run batches.py:build_model --global-batch-size 64 --set training.evaluates_training=true",
        "batches of its own. Leave",
        ready,
    ),
    Scenario(
        "run data.py:build_model --set training.loss=mean_squared_error",
        "optimizer and loss. Leave",
        ready,
    ),
    Scenario(
        "run data.py:build_model --set training.data_on_device=true",
        "leaves them to fit. Use",
        ready,
    ),
    Scenario(
        "run net.keras --set dataset.name=data.py:load_data --allow-code",
        " --set model.compiled=false trains",
        ready,
    ),
    Scenario(
        f"{SINE} --global-batch-size 10 --set training.feed=fit", "for each batch. Use", ready
    ),
    Scenario(
        f"{MINIMAL} --set model.name=gpt --set model.depth=1",
        "label for each of them. Use",
        ready,
    ),
    Scenario(f"{MINIMAL} --data real --data-dir none", "Use --data synthetic, or name", loaded),
    Scenario("run text_gpt", "Name one UTF-8 text file", loaded, {"FILE": "text.txt"}),
    Scenario(
        "run imagenet_alexnet --data real",
        "no source. Name the folder",
        loaded,
        {"--data-dir": "images"},
        "",
        "expected 1000 classes",
    ),
    Scenario(
        "run imagenet_alexnet --data real --data-dir images",
        "classes, found",
        loaded,
        {},
        "",
        "1.jpg",
    ),
    Scenario("profile mine.toml --backend jax --trace", "no trace of JAX. Leave"),
    Scenario(
        "profile mine.toml --backend torch --set training.compiler=inductor --trace",
        "torch.compile made. Leave",
    ),
    Scenario(
        "profile mine.toml --set training.data_on_device=true",
        "Received: true. Set",
        usable,
        {"RECIPE": "mine.toml"},
    ),
    Scenario(
        f"profile mine.toml --strategy mirrored {TWO}", "the step of one replica. Received", ready
    ),
    Scenario("profile weighted.py:build_model", "or several arrays. ", ready),
    Scenario(f"{WORKERS} --backend jax", "are is not said", usable, PLACES),
    Scenario(f"{WORKERS}", "are is not said", usable, PLACES),
    Scenario(f"TF_CONFIG=x {WORKERS}", "is not read. Name", usable, PLACES),
    Scenario(
        f"{WORKERS} --workers 2 --coordinator a:1,b:1 --num-workers 2 --worker-index 0",
        "for several machines. Leave it",
    ),
    Scenario(
        f"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 {WORKERS} --workers 2",
        "Leave it out for one",
    ),
    Scenario(f"{WORKERS} --num-workers 2", "does not set everything. Add", usable, PLACES),
    Scenario(
        f"{WORKERS} --num-workers 2 --worker-index 0 --coordinator a:1",
        ": --coordinator HOST:PORT,HOST:PORT with",
        usable,
        PLACES,
    ),
    Scenario(
        f"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=a[1-2] SLURM_JOB_ID=3 {WORKERS}",
        "does not list them: ",
        usable,
        PLACES,
    ),
    Scenario(f"{WORKERS} --backend jax --workers 2", "can be seen here. Use", among_workers),
    Scenario(f"{WORKERS} --workers 2", "Start one for each", among_workers),
    Scenario(
        CHECK,
        "Compare with a baseline",
        usable,
        {"--baseline": "base.json", "--save": "new.json"},
        SAVED,
    ),
    Scenario(f"{CHECK} --baseline none.json", " To make it, use"),
    Scenario(f"{CHECK} --baseline there", "To make one, use", usable, {"FILE": "new.json"}),
    Scenario(
        f"{CHECK} --baseline base.json --set model.hidden_units=[5]",
        "save a new baseline",
        usable,
        {"FILE": "new.json"},
        SAVED,
    ),
    Scenario(f"{CHECK} --save .", "Name a file, for example"),
    Scenario("compare", "Name runs, a sweep", usable, {}, MADE),
    Scenario("compare --sweep @last --recipe mine", "among all runs. Leave", usable, {}, MADE),
    Scenario(
        "sweep mine.toml --setup default --ray auto --plan plan.json",
        "exclude each other. Leave one",
        then="--ray: ",
    ),
    Scenario(
        "sweep --task 0",
        "makes a task of a plan: ",
        usable,
        {"FILE": "plan.json", "N": "0", "DIR": "nodes"},
        f"{SWEEP} --plan plan.json",
    ),
    Scenario(
        "sweep --resume @last --ray auto",
        "with --refine. Leave out",
        usable,
        {},
        f"{SWEEP} --setup 'mirrored cpu:0,cpu:1' --repeats 2 --refine 1 --vary {BATCH}=8..64",
    ),
    Scenario(
        "sweep --resume @last --ray auto",
        "with --time-budget. Leave out",
        usable,
        {},
        f"{MADE} --time-budget 5m",
    ),
    Scenario("sweep", "Missing argument 'RECIPE'. "),
    Scenario(f"{SWEEP} --plan p.json --repeats 2..3", "has a fixed number of rounds"),
    Scenario(
        f"crossover mine.toml --dry-run --vary {BATCH}=8..64",
        "Name the two setups to compare",
        usable,
        {"--between": "'default cpu:0' 'mirrored cpu:0,cpu:1'"},
    ),
    Scenario(f"{SWEEP} --dry-run --repeats x", "must be a number, such as"),
    Scenario(
        "sweep mine.toml --setup 'a b c' --dry-run",
        "KEY=VALUE... @MACHINE, for example",
    ),
    Scenario("sweep mine.toml --vary x --dry-run", "must be KEY=VALUE,VALUE,..., for example"),
    Scenario(
        "sweep mine.toml --vary global_batch_size=32,64 --dry-run", "Give it with its section"
    ),
    Scenario("sweep mine.toml --vary training.backend=jax,torch --dry-run", "as setups instead: "),
    Scenario(
        "sweep mine.toml --vary distribution.strategy=default,mirrored --dry-run",
        "Compare setups instead: ",
    ),
    Scenario("scale mine.toml --replicas 1 --devices cpu --dry-run", "must be numbers such as"),
    Scenario(
        f"sweep mine.toml --aa --refine 3 --dry-run --vary {BATCH}=8..64", "give one --setup, and"
    ),
    Scenario(
        "sweep mine.toml --refine 3 --dry-run",
        "needs one --vary of whole",
        usable,
        {"--vary": f"{BATCH}=8..64"},
    ),
    Scenario("scale mine.toml --replicas 2 --devices gpu --dry-run", "explains why. Or"),
    Scenario(
        "sweep mine.toml --setup 'default cpu:0 @a100'",
        "Use --plan FILE for",
        usable,
        {"FILE": "p.json"},
    ),
    Scenario(
        "sweep --resume @last",
        "allow it again with",
        usable,
        {},
        "sweep data.py:build_model --setup 'default cpu:0' --repeats 1",
    ),
]
# Parts of the others, by what they ask for.
NOT_FOLLOWED = {
    "hardware, software or a server that is not here": (
        "`tfbench devices` says what is there",
        "`tfbench devices` explains why a GPU is missing",
        "do not fit on {}. Set it to false",
        "to try it, for example --devices cpu:0,cpu:1",
        "instead of once. Use {}",
        "Use Keras 3.15",
        "does one step per call on backend {}. Use --set",
        ", or use --backend {}",
        "pip install --force-reinstall torch",
        "For this command, start one process",
        "Choose among the machine's GPUs",
        "Start one on the first machine with `ray start",
        "Start each with `ray start",
        "Serve it with `mlflow server",
        "none of its runs is in MLflow",
        "for example http://127.0.0.1:5000",
        "Runs of this store are tracked at",
        "exists, but MLflow does not return it",
        "was deleted. Restore it in MLflow",
        "Name another one with --port",
    ),
    "another file, folder, name or value, which the user chooses": (
        "cannot be used: {}. Choose another one",
        "is a folder. Name a file.",
        "is there already. Name another file",
        "are the same run, {}. Name two",
        'both setups are "{}". Name two',
        "Remove it, or fill it",
        "Remove it and prepare it again",
        "Use a longer text",
        "the name is taken already",
        "Use a smaller seed",
        "Use the id of one",
        "Name a run that trained",
        "must be KEY=VALUE, as of --set",
        "is code. Name the function",
        "is varied already. Set it in one place",
        "is varied twice. Give all",
        "is not a plan of this version",
        "a path of SQLite must have no",
        "Remove it, and `tfbench run --resume`",
    ),
    "a change of code": (
        "rounds: must be a number or two",
        "Use tuples for (x, y)",
        "for fit. Leave it out",
        "for arrays. Leave it out",
        "a distribution such as RandomNormal",
        "Use Conv2D for none",
        "size must be odd. Received: {}. Use {}",
        "Use keras.Input(shape) without a batch size",
        "Give model.compile one",
        "multiply --global-batch-size by",
        "Leave it alone: the recipe says",
        "make numbers of them in load_data()",
        "Use another number of samples",
    ),
    "a run that is made anew": (
        "has one run, which does not show",
        "Try it without --fast",
        "Start again; the runs are stored",
        "A run leaves one every N epochs",
        "epochs are done. Use a larger number",
    ),
}


@pytest.fixture
def ask(tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command that measures nothing; a probe looks at what it would measure."""
    for name, text in FILES.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in ("multi_worker", "model", "hybrid", "torch"):
        monkeypatch.setitem(searches.COSTS, name, searches.COSTS["jax"])
    searches.plant_runs(monkeypatch)()
    measure = session.execute_run
    monkeypatch.setattr(launch, "_list_visible_gpus", lambda: (Gpu(name="GPU"),) * 3)
    monkeypatch.setattr(children, "ask_child", answer_nothing)
    monkeypatch.setattr(plan, "is_installed", lambda backend: True)
    monkeypatch.setattr(synthetic, "POOL_BYTES", 2**20)
    prepare_here(monkeypatch)

    def run(asked: tuple[str, ...], probe: Probe) -> Any:
        def execute(request: RunRequest, *rest: Any) -> Any:
            probe(request)
            return measure(request, *rest)

        monkeypatch.setattr(session, "execute_run", execute)
        return tfbench(*asked)

    return run


def answer_nothing(*_: Any, timeout: float, **__: Any) -> None:
    raise subprocess.TimeoutExpired("python", timeout)


def prepare_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process prepare runs on devices of which it has only the first."""
    backend = backends.current()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    replicas = [1]

    def resolve(distribution: Any, training: Any, rank: Any) -> Placed:
        devices = distribution.devices or ("cpu:0",)
        replicas[0] = len(devices)
        placed = build_placement(devices=devices, num_replicas=len(devices))
        return Placed(placed, ("/device:CPU:0",))

    monkeypatch.setattr(backend, "resolve", resolve)
    monkeypatch.setattr(backend, "count_replicas", lambda: replicas[0])
    monkeypatch.setattr(backend, "collect_environment", build_environment)
    monkeypatch.setattr(prepared, "import_keras", lambda *_: None)
    monkeypatch.setattr(prepared, "find_unused_gpu", lambda *_: "")
    monkeypatch.setattr(prepared, "set_process_wide", set_precision)


def set_precision(recipe: Any) -> None:
    keras.config.set_dtype_policy(recipe.training.precision)


@pytest.fixture(autouse=True)
def precision() -> Any:
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.filterwarnings("ignore:Model doesn't support")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.asked)
def test_advice_that_is_followed_helps(
    ask: Cli, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tuple(shlex.split(scenario.asked))
    while "=" in asked[0]:
        name, _, value = asked[0].partition("=")
        monkeypatch.setenv(name, value)
        asked = asked[1:]
    if "net.keras" in asked:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", "categorical_crossentropy")
        model.save("net.keras")
    if scenario.before:
        assert ask(tuple(shlex.split(scenario.before)), usable).exit_code == 0
    told = ask(asked, scenario.probe)
    lines = [line for line in told.stderr.splitlines() if scenario.error in line]
    assert lines, told.stderr
    message = lines[0].removeprefix("Error: ")
    advice = scenario.error + message.partition(scenario.error)[2]
    ways = follow(asked, message, advice, scenario.filled)
    assert ways, message
    for way in ways:
        done = ask(way, scenario.probe)
        assert scenario.error not in done.stderr, (message, way)
        is_told = bool(scenario.then) and scenario.then in done.stderr
        assert done.exit_code == 0 or is_told, (message, way, done.stderr)


def test_each_advice_is_followed_or_is_known_not_to_be() -> None:
    followed = {scenario.error for scenario in SCENARIOS}
    listed = {part for parts in NOT_FOLLOWED.values() for part in parts}
    assert not followed & listed
    numbers = dict.fromkeys(followed | listed, 0)
    unknown = []
    for advice in list_advice():
        found = [part for part in numbers if part in advice.text]
        if not found:
            unknown.append(advice)
        for part in found:
            numbers[part] += 1
    assert unknown == []
    assert {part: number for part, number in numbers.items() if number != 1} == {}


@pytest.fixture(scope="module")
def known_keys() -> set[str]:
    """The keys of all recipes, and those of a network of the user's."""
    keys = {"model.name", "model.file", "model.compiled", "dataset.name"}
    for path in list_recipes().values():
        keys.update(list_meanings(load_recipe(path)))
    return keys


def test_what_an_advice_names_is_there(known_keys: set[str]) -> None:
    known = {name: find_options(name) for name in cli.list_commands(click.Context(cli))}
    anywhere = {"--help"}.union(*known.values())
    for advice in list_advice():
        text = FOREIGN.sub("", advice.text)
        for command, rest in re.findall(r"`tfbench ([a-z]+)\b([^`]*)`", text):
            assert set(OPTION.findall(rest)) <= set(known[command]), advice
        assert set(OPTION.findall(text)) <= anywhere, advice
        assert set(KEY.findall(text)) <= known_keys, advice
        for key, value in re.findall(r"--set (\w+\.\w+)=([a-z]\w*)", text):
            assert "must be" not in reject(key, value), advice


def reject(key: str, value: str) -> str:
    """Returns what is wrong with the value of a key, of a recipe that may have no such key."""
    try:
        load_recipe(list_recipes()["mnist_mlp"], dict([parse_override(f"{key}={value}")]))
    except RecipeError as error:
        return str(error)
    return ""
