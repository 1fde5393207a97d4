"""What the commands that measure share: the values of their options, and how they make runs."""

import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from tfbench.cli._options import is_given, measuring_options
from tfbench.errors import RecipeError
from tfbench.wording import without_secrets

if TYPE_CHECKING:
    from tfbench.runs.console import RunConsole
    from tfbench.runs.maker import RunMaker
    from tfbench.runs.record import RunRequest
    from tfbench.runs.stored_run import Run, RunLimits
    from tfbench.store.store import Store, TrackingState

F = TypeVar("F", bound=Callable[..., Any])


class Measuring(NamedTuple):
    """What `measuring_options` were given."""

    backend: str | None
    data: str | None
    data_dir: Path | None
    overrides: dict[str, Any]
    allows_code: bool
    run_timeout_seconds: float | None
    memory_limit_bytes: float | None
    store: "Store"
    tracking_uri: str | None
    experiment: str | None
    no_mlflow: bool
    output_format: str

    @property
    def as_json(self) -> bool:
        """Whether stdout is kept for one JSON document."""
        return self.output_format == "json"

    @property
    def limits(self) -> "RunLimits":
        """Of each run."""
        from tfbench.runs.stored_run import RunLimits

        memory = None if self.memory_limit_bytes is None else int(self.memory_limit_bytes)
        return RunLimits(timeout_seconds=self.run_timeout_seconds, memory_bytes=memory)

    def make_request(
        self,
        recipe: str | None,
        direct: Mapping[str, Any] | None = None,
        *,
        resume: str | None = None,
        **options: Any,
    ) -> "RunRequest":
        """Builds the request for a run of a recipe, or for one that resumes an earlier run.

        Args:
            recipe: Its name or path.
            direct: Options that set a key, None where they were not given.
            resume: The earlier run.
            options: As of `api.make_request`.
        """
        from tfbench import api
        from tfbench.runs.requests import merge_overrides

        given = {**(direct or {}), "backend": self.backend, "data": self.data}
        values = merge_overrides(self.overrides, **given)
        try:
            request = api.make_request(
                self.store,
                recipe,
                resume,
                values=values,
                data_dir=self.data_dir,
                allows_code=self.allows_code,
                **options,
            )
        except RecipeError as error:
            raise RecipeError(_name_options(str(error), given)) from error
        if request.recipe.dataset.name == "network" and is_given("data_dir"):
            raise RecipeError(
                "--data-dir: is not used, since random samples are made for this network. Write a"
                " function load_data() beside it that reads your data."
            )
        return dataclasses.replace(request, argv=tuple(map(without_secrets, sys.argv[1:])))

    def with_defaults(self, values: Mapping[str, Any]) -> "Measuring":
        """Returns it with values of keys that nobody has set."""
        return self._replace(overrides={**values, **self.overrides})

    def open_maker(self, before: "TrackingState | None" = None) -> "RunMaker":
        """Returns what makes runs, kept and tracked as the options say.

        Args:
            before: Where the run or sweep that is resumed was tracked; it holds unless the options
                say otherwise.
        """
        from tfbench.runs.maker import open_maker

        return open_maker(
            self.store, not self.no_mlflow, self.tracking_uri, self.experiment, before
        )


def _name_options(text: str, given: Mapping[str, Any]) -> str:
    """Returns a text with the options that were given in place of the keys that they set."""
    from tfbench.runs.requests import KEYS

    for param in click.get_current_context().command.params:
        if given.get(param.name or "") is not None and param.name in KEYS:
            text = re.sub(
                rf"^{re.escape(KEYS[param.name])}: ", f"{param.opts[0]}: ", text, flags=re.MULTILINE
            )
    return text


class ShownRuns:
    """Makes the runs of a command, and shows them on consoles.

    Args:
        measuring: What the command was given.
        before: As of `Measuring.open_maker`.
    """

    def __init__(self, measuring: Measuring, before: "TrackingState | None" = None) -> None:
        self.as_json = measuring.as_json
        self.maker = measuring.open_maker(before)
        self._limits = measuring.limits
        self._warned: set[str] = set()

    def make(self, request: "RunRequest") -> "Run":
        """Makes a run, shown as a table of epochs and a summary."""
        return self.maker.make(request, self.open_console(), self._limits)

    def make_brief(self, request: "RunRequest", label: str, *, is_aside: bool = False) -> "Run":
        """Makes a run of a series, shown in a line that begins with a label.

        It is on stderr if the run is not part of the result (`is_aside`).
        """
        from tfbench.sweeps.series_console import SeriesConsole

        console = SeriesConsole(
            label,
            self._warned,
            quiet_stdout=self.as_json or is_aside,
            server=self.maker.server,
            is_tracked=self.maker.tracker is not None,
        )
        return self.maker.make(request, console, self._limits)

    def open_console(self) -> "RunConsole":
        """Returns what shows a run alone."""
        from tfbench.runs.console import RunConsole

        return RunConsole(quiet_stdout=self.as_json, server=self.maker.server)


def measures(command: F) -> F:
    """Adds what every command that measures takes; the command gets it together as `measuring`."""

    @functools.wraps(command)
    def gathered(**given: Any) -> Any:
        measuring = Measuring(**{field: given.pop(field) for field in Measuring._fields})
        return command(**given, measuring=measuring)

    return measuring_options(cast(F, gathered))
