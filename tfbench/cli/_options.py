"""Options that several commands share, each declared once, and help that shows them in groups.

What the shell completes besides options is at the end.
"""

import contextlib
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from tfbench.wording import DEFAULT_STORE

if TYPE_CHECKING:
    from tfbench.store.store import Store
    from tfbench.sweeps.arguments import Rounds

F = TypeVar("F", bound=Callable[..., Any])

_MOST_RUNS = 50  # that are completed, the newest
_RECIPE_SUFFIXES = (".toml", ".py", ".keras")
STRATEGIES = ("default", "one_device", "mirrored", "multi_worker", "model", "hybrid")
BACKENDS = ("tensorflow", "jax", "torch")
WORKER_PARAMETERS = ("workers", "coordinator", "num_workers", "worker_index")
# Below which headings a command's help has options that others share, by the names of parameters.
_HEADINGS = {
    "Several workers": WORKER_PARAMETERS,
    "Recipe and data": ("backend", "data", "data_dir", "overrides", "allows_code"),
    "Limits of each run": ("run_timeout_seconds", "memory_limit_bytes"),
    "Store, MLflow and output": (
        "store",
        "tracking_uri",
        "experiment",
        "no_mlflow",
        "output_format",
    ),
}
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names}


class count(click.IntRange):  # noqa: N801 - as click's own types, it is called like a function
    """A whole number, which help calls N."""

    name = "integer"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Returns that."""
        return "N"


def _quantity(
    name: str, units: dict[str, float], examples: str, most: float, *, allows_zero: bool = False
) -> Callable[[Any], float]:
    """Returns what reads a positive number, with a unit or without, as "10m"; help has `name`."""

    def read(value: Any) -> float:
        text = str(value).strip()
        unit = next((unit for unit in units if text.endswith(unit)), "")
        try:
            number = float(text.removesuffix(unit)) * units.get(unit, 1)
        except ValueError:
            number = math.nan
        if not (0 < number <= most or (allows_zero and number == 0)):
            least = "0 or more" if allows_zero else "more than 0"
            raise click.BadParameter(
                f"must be {least} and at most {most:g}, such as {examples}. Received: {text}"
            )
        return number

    read.__name__ = name
    return read


FILE = click.Path(path_type=Path)
read_duration = _quantity(
    "time", {"s": 1, "m": 60, "h": 3600}, "90s, 10m or 1.5h; a bare number is seconds", 1e9
)
read_size = _quantity(
    "size", {"MiB": 2**20, "GiB": 2**30}, "512MiB or 4GiB; a bare number is bytes", 2**60
)
read_share = _quantity("share", {"%": 0.01}, "2% or 0.02", 0.99)
read_share_or_zero = _quantity("share", {"%": 0.01}, "2% or 0.02", 0.99, allows_zero=True)


class GroupedCommand(click.Command):
    """A command whose help lists shared options under headings of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes all options, its own first."""
        groups: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in ("Options", *_HEADINGS)
        }
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                groups[_HEADING_OF.get(param.name or "", "Options")].append(record)
        for heading, records in groups.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def stack(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Returns what adds several options to a command, in their order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def batch_size_option(meaning: str) -> Callable[[F], F]:
    """Returns the option of the batch size, with its meaning for a command."""
    return click.option("--global-batch-size", "--batch-size", metavar="N", type=int, help=meaning)


global_batch_size_option = batch_size_option("Samples per step, over all replicas.")
setup_option = stack(
    click.option(
        "--strategy",
        type=click.Choice(STRATEGIES),
        help=(
            "default: plain Keras. mirrored: one replica per device. multi_worker: one process per"
            " worker. model: split weights. hybrid: split batches and weights."
        ),
    ),
    click.option(
        "--devices", metavar="LIST", help="Such as cpu:0 or gpu:0,gpu:2; gpu is every GPU."
    ),
    global_batch_size_option,
)
allow_unequal_option = click.option(
    "--allow-unequal",
    "allows_unequal",
    is_flag=True,
    help="Compare runs even if settings that must match differ.",
)


def _read_overrides(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Any]:
    from tfbench.recipe.tables import parse_override

    return dict(parse_override(text) for text in texts)


def _open_store(context: click.Context, option: click.Parameter, root: Path) -> "Store":
    from tfbench.errors import TrackingError
    from tfbench.store.store import Store

    # A folder that cannot be looked into is reported where it is used.
    with contextlib.suppress(OSError):
        if root.exists() and not root.is_dir():
            raise TrackingError(
                f"store {root}: is a file, and a store is a folder. Name another one with --store."
            )
    return Store(root)


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_read_overrides,
    help="Set any key of the recipe, such as model.hidden_units=[4000,4000]. Repeatable.",
)
allow_code_option = click.option(
    "--allow-code",
    "allows_code",
    is_flag=True,
    help="Allow your own functions that the recipe names.",
)
store_option = click.option(
    "--store",
    metavar="DIR",
    type=FILE,
    default=Path(DEFAULT_STORE),
    callback=_open_store,
    envvar="TFBENCH_STORE",
    show_envvar=True,
    help="Folder of journals and artifacts.",
)
_URI: dict[str, Any] = {"metavar": "URI", "envvar": "MLFLOW_TRACKING_URI", "show_envvar": True}
tracking_uri_option = click.option(
    "--tracking-uri", **_URI, help="Send runs to this MLflow server."
)
asked_uri_option = click.option(
    "--tracking-uri", **_URI, help="Contact this MLflow server for runs tracked there."
)
format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: one document.",
)
measuring_options = stack(
    click.option(
        "--backend", type=click.Choice(BACKENDS), help="[default: the recipe's, else tensorflow]"
    ),
    click.option(
        "--data",
        type=click.Choice(["real", "synthetic"]),
        help="synthetic: generated, of the same size.",
    ),
    click.option(
        "--data-dir",
        type=FILE,
        envvar="TFBENCH_DATA_DIR",
        show_envvar=True,
        help="Folder or file of data.",
    ),
    set_option,
    allow_code_option,
    click.option(
        "--run-timeout",
        "run_timeout_seconds",
        type=read_duration,
        help="End a run after TIME, such as 5m.",
    ),
    click.option(
        "--memory-limit",
        "memory_limit_bytes",
        type=read_size,
        help="End a run above SIZE, such as 4GiB.",
    ),
    store_option,
    tracking_uri_option,
    click.option(
        "--experiment",
        metavar="NAME",
        help="MLflow experiment. [default: MLFLOW_EXPERIMENT_NAME, else tfbench]",
    ),
    click.option(
        "--no-mlflow", is_flag=True, help="Skip MLflow; `tfbench recover` catches up later."
    ),
    format_option,
)


def _read_rounds(context: click.Context, option: click.Parameter, text: str) -> "Rounds":
    from tfbench.errors import RecipeError
    from tfbench.sweeps.arguments import parse_rounds

    try:
        return parse_rounds(text)
    except RecipeError as error:
        raise click.UsageError(str(error)) from error


def plan_options(repeats: str = "3..20") -> Callable[[F], F]:
    """Returns what adds the options of every plan: repeats, times, and the dry run."""
    return stack(
        click.option(
            "--repeats",
            "rounds",
            metavar="N|LOW..HIGH",
            callback=_read_rounds,
            default=repeats,
            help="Runs per setup and size: N, or from LOW until all is decided.",
        ),
        click.option("--seconds", metavar="S", type=float, default=1, help="Steady time per run."),
        click.option(
            "--time-budget",
            "time_budget_seconds",
            type=read_duration,
            help="Start no run that would end later than this.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="Print the plan and how long it takes, and stop."
        ),
    )


def is_given(name: str | None) -> bool:
    """Whether a parameter was given on the command line, not by a variable."""
    source = click.get_current_context().get_parameter_source(name or "")
    return source is ParameterSource.COMMANDLINE


def require_absent(why: str, *names: str) -> None:
    """Rejects parameters of the command under way that contradict what it was asked for.

    Args:
        why: What else was asked for, such as "--resume uses the plan of the sweep".
        names: Of the parameters.
    """
    given = []
    for param in click.get_current_context().command.params:
        if param.name not in names or not is_given(param.name):
            continue
        if isinstance(param, click.Option):
            given.append(max(param.opts, key=len))
        else:
            given.append(param.human_readable_name)
    if given:
        raise click.UsageError(f"{why}: leave {', '.join(given)} out.")


def complete_recipe(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the shipped recipes, and what may be one in this folder; else any file."""
    from tfbench.recipe.files import list_recipes

    names = [*list_recipes()]
    names += [path.name for path in Path().iterdir() if path.suffix in _RECIPE_SUFFIXES]
    found = _begin_with(incomplete, map(CompletionItem, names))
    return found or [CompletionItem(incomplete, type="file")]


def complete_run(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the newest runs of the store, each by its id, with its name."""
    store: Store | None = context.params.get("store")
    if store is None:
        return []
    items = [CompletionItem("@last")]
    for head in store.heads()[:_MOST_RUNS]:
        items.append(CompletionItem(head.run_id, help=head.name))
    return _begin_with(incomplete, items)


def complete_sweep(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the sweeps of the store."""
    from tfbench.store.sweep_log import list_sweeps

    store: Store | None = context.params.get("store")
    if store is None:
        return []
    return _begin_with(incomplete, map(CompletionItem, ["@last", *list_sweeps(store)]))


def _begin_with(incomplete: str, items: Iterable[CompletionItem]) -> list[CompletionItem]:
    return [item for item in items if item.value.startswith(incomplete)]
