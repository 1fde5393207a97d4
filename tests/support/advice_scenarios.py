"""What users ask for, the advice of the error that they get, and how they follow it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tfbench.backends.device_choice import choose_devices, require_possible
from tfbench.backends.tensorflow import placement, several_workers
from tfbench.errors import RecipeError
from tfbench.measure import data, prepared
from tfbench.measure.breakdown import Breakdown
from tfbench.recipe.backend_support import find_lacking
from tfbench.recipe.device_names import Device, find_mesh, parse_devices, require_usable
from tfbench.recipe.mesh import lay_out
from tfbench.runs import launch
from tfbench.runs.record import RunRequest
from tfbench.store.journal import Journal

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
    "short.txt": "a" * 500,
    "page.html": "my own page",
    "no_images/train/a/notes.txt": "",
    "no_images/train/b/1.jpg": "",
    "no_images/val/a/1.jpg": "",
    "no_images/val/b/1.jpg": "",
    "taken.toml": f'{MINE}\n[[model.layer]]\ntype = "Flatten"\nname = "data"\n'.replace(
        'name = "mlp"\nhidden_units = [4]', 'name = "layers"'
    ),
    "lists.py": f"{NET}\ndef load_data():\n    x, y = make()\n    return [[x], [y]]\n",
    "longer.py": f"{NET}\ndef load_data():\n    x, y = make()\n"
    '    return {"x": x, "y": y, "epochs": 3}\n',
    "counted.py": f"{NET}\ndef load_data():\n    x, y = make()\n"
    '    return {"x": x, "y": y, "steps_per_epoch": 3}\n',
    "single.py": f"{NET}\ndef load_data():\n    x, y = make()\n    return (x, y), (x[:1], y[:1])\n",
    "odd.py": DATA.replace("Input((4,))", "Input((4,), batch_size=32)").replace(
        "make(), make()", "make(), tuple(part[:40] for part in make())"
    ),
    "untold.py": DATA.replace('compile("sgd", loss)', "compile(None, loss)"),
    "adding.py": DATA.replace('"sgd"', "keras.optimizers.SGD(gradient_accumulation_steps=2)"),
    "words.py": f"{NET}{BATCHES}".replace('"float32"', "object").replace(
        "Input((4,))", 'Input((4,), dtype="string"), keras.layers.Hashing(8)'
    ),
    "policy.py": DATA.replace(
        "    model = ", '    keras.config.set_dtype_policy("mixed_bfloat16")\n    model = '
    ),
}
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


def possible(request: RunRequest) -> None:
    require_possible(request.recipe.distribution, request.recipe.training)


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
    ways: tuple[str, ...] = ()  # what to ask instead, where the user has to choose
    changed: Mapping[str, str] = MappingProxyType({})  # new texts of files; "" removes one


def mending(file: str, old: str, new: str) -> dict[str, str]:
    """Returns a file's text in which a part is another one."""
    assert old in FILES[file], (file, old)
    return {file: FILES[file].replace(old, new)}


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
OF_64 = "--global-batch-size 64"
ONE_DEVICE = f"{MINIMAL} --strategy one_device --devices gpu:"
NEW = {"--store": "other"}
PLANTED = (f"{9:032x}", f"{12:032x}")  # runs that are in the store
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
    Scenario("run data.py:build_model --data synthetic", "tells its shapes and sizes. Received"),
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
        "compare with a baseline",
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
        "resume a crossover. Leave out",
        usable,
        {},
        f"crossover mine.toml --between 'default cpu:0' 'mirrored cpu:0,cpu:1' --repeats 2 --refine 1"
        f" --vary {BATCH}=8..64",
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
        "crossover mine.toml --dry-run --vary training.precision=float32,float64 --between"
        " 'default cpu:0' 'mirrored cpu:0,cpu:1'",
        "needs one --vary of whole",
        ways=(
            f"crossover mine.toml --dry-run --vary {BATCH}=8..64 --between 'default cpu:0'"
            " 'mirrored cpu:0,cpu:1'",
        ),
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
    Scenario(
        "report --sweep @last -o images",
        "is a folder. Name a file",
        before=MADE,
        ways=("report --sweep @last -o new.html",),
    ),
    Scenario(
        "report --sweep @last -o page.html",
        "is there already. Name another file",
        before=MADE,
        ways=("report --sweep @last -o new.html",),
    ),
    Scenario(
        "report --sweep @last -o page.html",
        "or remove this one first",
        before=MADE,
        changed={"page.html": ""},
    ),
    Scenario(
        f"diff {PLANTED[0]} {PLANTED[0]}",
        "are the same run, ",
        ways=(f"diff {PLANTED[0]} {PLANTED[1]}",),
    ),
    Scenario(f"diff {PLANTED[0]} 0000", "Use the id of one", ways=(f"diff {' '.join(PLANTED)}",)),
    Scenario(
        f"crossover mine.toml --vary {BATCH}=8..64 --dry-run --between 'default cpu:0' 'default cpu:0'",
        'both setups are "',
        ways=(
            f"crossover mine.toml --vary {BATCH}=8..64 --dry-run --between 'default cpu:0'"
            " 'mirrored cpu:0,cpu:1'",
        ),
    ),
    Scenario(
        "run imagenet_alexnet --data real --data-dir no_images --set dataset.num_classes=2",
        "Remove it, or fill it",
        loaded,
        then="1.jpg",
        changed={"no_images/train/a/1.jpg": "image"},
    ),
    Scenario(
        "run text_gpt --data-dir short.txt",
        "Use a longer text, or a smaller context",
        loaded,
        ways=(
            "run text_gpt --data-dir text.txt",
            "run text_gpt --data-dir short.txt --set dataset.context=4",
        ),
    ),
    Scenario(
        "show taken.toml",
        "the name is taken already. Give it another",
        then="not built within",
        changed=mending("taken.toml", 'name = "data"', 'name = "flat"'),
    ),
    Scenario(
        f"{MINIMAL} --repeats 2 --vary-seed --seed 2147483647",
        "Use a smaller seed",
        ways=(f"{MINIMAL} --repeats 2 --vary-seed --seed 2147483646",),
    ),
    Scenario(
        "sweep mine.toml --setup 'default cpu:0 =jax' --dry-run",
        "must be KEY=VALUE, as of --set",
        ways=("sweep mine.toml --setup 'default cpu:0 backend=jax' --dry-run",),
    ),
    Scenario("run data.py", "is code. Name the function", ways=("run data.py:build_model",)),
    Scenario(
        "sweep mine.toml --setup 'default cpu:0 training.epochs=2' --vary training.epochs=2,3 --dry-run",
        "is varied already. Set it in one place",
        ways=(
            "sweep mine.toml --setup 'default cpu:0' --vary training.epochs=2,3 --dry-run",
            "sweep mine.toml --setup 'default cpu:0 training.epochs=2' --dry-run",
        ),
    ),
    Scenario(
        f"{SWEEP} --dry-run --vary {BATCH}=8 --vary {BATCH}=16",
        "is varied twice. Give all of its values once",
        ways=(f"{SWEEP} --dry-run --vary {BATCH}=8,16",),
    ),
    Scenario(
        "sweep --plan page.html --task 0",
        "is not a plan of this version",
        before=f"{SWEEP} --plan plan.json",
        ways=("sweep --plan plan.json --task 0 --store nodes/a",),
    ),
    Scenario(
        f"{MINIMAL} --tracking-uri sqlite:////data/50%/a.db",
        "a path of SQLite must have no",
        ways=(f"{MINIMAL} --tracking-uri sqlite:////data/a.db",),
    ),
    Scenario(
        f"{MINIMAL} --tracking-uri postgresql://db/mlflow",
        ", for example http://127",
        ways=(f"{MINIMAL} --tracking-uri sqlite:///new.db",),
    ),
    Scenario(
        "run lists.py:build_model",
        "Use tuples for (x, y)",
        ready,
        changed=mending("lists.py", "[[x], [y]]", "x, y"),
    ),
    Scenario(
        "run lists.py:build_model",
        "or return a dict of arguments of fit",
        ready,
        changed=mending("lists.py", "[[x], [y]]", '{"x": x, "y": y}'),
    ),
    Scenario(
        "run longer.py:build_model",
        "for fit. Leave it out",
        ready,
        changed=mending("longer.py", ', "epochs": 3', ""),
    ),
    Scenario(
        "run counted.py:build_model",
        "for arrays. Leave it out",
        ready,
        changed=mending("counted.py", ', "steps_per_epoch": 3', ""),
    ),
    Scenario(
        f"run single.py:build_model --epochs 1 --strategy mirrored {TWO}",
        "Use another number of samples",
        ready,
        changed=mending("single.py", "x[:1], y[:1]", "x[:2], y[:2]"),
    ),
    Scenario(
        "run odd.py:build_model --global-batch-size 32",
        "Use keras.Input(shape) without a batch size",
        ready,
        changed=mending("odd.py", ", batch_size=32", ""),
    ),
    Scenario(
        "run odd.py:build_model --global-batch-size 32",
        "or another number of samples",
        ready,
        changed=mending("odd.py", "[:40]", "[:32]"),
    ),
    Scenario(
        "run untold.py:build_model",
        "Give model.compile one",
        ready,
        changed=mending("untold.py", "compile(None", 'compile("sgd"'),
    ),
    Scenario(
        f"run adding.py:build_model --strategy mirrored {TWO}",
        "Use one device, or leave gradient_accumulation_steps",
        ready,
        ways=("run adding.py:build_model --devices cpu:0",),
    ),
    Scenario(
        f"run adding.py:build_model --strategy mirrored {TWO}",
        "multiply --global-batch-size by",
        ready,
        ways=(f"run adding.py:build_model --strategy mirrored {TWO} --global-batch-size 64",),
        changed=mending("adding.py", "gradient_accumulation_steps=2", ""),
    ),
    Scenario(
        "run policy.py:build_model",
        "Leave it alone: the recipe says",
        ready,
        changed=mending("policy.py", '    keras.config.set_dtype_policy("mixed_bfloat16")\n', ""),
    ),
    Scenario(
        f"run words.py:build_model {OF_64} --strategy mirrored {TWO}",
        "Keras cannot divide strings",
        ready,
        ways=(f"run words.py:build_model {OF_64} --devices cpu:0",),
    ),
    Scenario(
        f"run words.py:build_model {OF_64} --strategy mirrored {TWO}",
        "make numbers of them in load_data()",
        ready,
        changed={"words.py": f"{NET}{BATCHES}"},
    ),
    Scenario(
        f"CUDA_VISIBLE_DEVICES=4 {JAX} --devices gpu:1",
        "`tfbench devices` says what is there",
        possible,
        ways=("devices", f"CUDA_VISIBLE_DEVICES=4 {JAX} --devices gpu:0"),
    ),
    Scenario(
        f"{ONE_DEVICE}7",
        "`tfbench devices` explains why a GPU is missing",
        on_two_gpus,
        ways=("devices", f"{ONE_DEVICE}1"),
    ),
    Scenario(
        f"{WORKERS} --workers 1 --devices gpu:1",
        "Choose among the machine's GPUs",
        among_workers,
        ways=(f"CUDA_VISIBLE_DEVICES=1 {WORKERS} --workers 1 --devices gpu:0",),
    ),
    Scenario(f"{SWEEP} --backend torch", ", or choose --backend "),
    Scenario(
        f"{SWEEP} --setup 'default cpu:0 backend=torch'",
        " (in a --setup, ",
        ways=(f"{SWEEP} --setup 'default cpu:0 backend=jax'",),
    ),
    Scenario(f"{JAX} --set training.parallel_batches=3", "makes batches on backend"),
    Scenario(
        f"{MINIMAL} --set training.feed=fit --set training.prefetched_batches=1",
        "tfbench's pipeline is not used",
    ),
    Scenario(
        f"{MINIMAL} --set training.data_on_device=true --set training.parallel_batches=3",
        "tfbench's pipeline is not used",
    ),
    Scenario(
        f"{CHECK} --baseline base.json --require-detect 3%",
        "half of it, or a larger --require-detect",
        before=SAVED,
        ways=(f"{CHECK} --baseline base.json --require-detect 3% --fail-above 0.015",),
    ),
]
