"""Writes a page for each machine in docs/results/ from the journals that lie there.

`python docs/results.py`.

    python docs/results.py my-machine STORE...  # first packs and draws their newest sweeps

A test fails where a page is not what the journals say.
"""

import functools
import io
import json
import re
import shlex
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tfbench import api
from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.comparison_text import comparison_table
from tfbench.comparisons.plots import comparison_plots
from tfbench.comparisons.verdict import find_caveats
from tfbench.machine.facts import Environment
from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.toml_text import format_inline
from tfbench.runs.warnings import merge_warnings
from tfbench.show.figures import png
from tfbench.show.formats import format_bytes
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_sweep, read_sweep
from tfbench.sweeps.plan import SweepPlan
from tfbench.sweeps.results import find_runs
from tfbench.wording import markdown_text

RESULTS = Path(__file__).parent / "results"
_NOTICE = "<!-- Written by docs/results.py from the journals beside it. -->"
# of a sweep that is not told otherwise
_REPEATS = "3..20"
_SECONDS = 1.0
_PLOT = "samples_per_second.png"
_LEGEND = (
    "Speeds are geometric means over one process per round. Speed-ups are relative to the first",
    "setup, with 95 % intervals: `+` faster, `-` slower, `=` equal within 5 %,",
    "`!` inconclusive ([how this is judged](../explanation/statistics.md)).",
)


def write_pages() -> dict[Path, str]:
    """Returns the page of each machine, by its path."""
    machines = sorted(path for path in RESULTS.iterdir() if path.is_dir())
    return {folder.with_suffix(".md"): "\n".join(_page(folder)) + "\n" for folder in machines}


def pack(store_root: Path, folder: Path) -> None:
    """Packs a store's newest sweep without private names, and draws its plot.

    These are the names of the host and the data folder. The plot stands beside the archive.
    """
    store = Store(store_root)
    sweep_id = find_sweep(store, "@last")
    record = read_sweep(store, sweep_id)
    plan = record.plan
    journals = []
    for result in find_runs(store, record).results.values():
        if result.run_id:
            journals.append(store.journal_path(result.run_id))
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{plan.recipe_name}.tar.gz", "w:gz") as archive:
        for path in [*journals, store_root / "sweeps" / f"{sweep_id}.json"]:
            data = b"".join(
                _without_places(line, plan.data_dir) for line in path.read_bytes().splitlines()
            )
            member = tarfile.TarInfo(str(Path(plan.recipe_name) / path.relative_to(store_root)))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    compared = api.compare(sweep=sweep_id, store=store_root)
    picture = folder / f"{plan.recipe_name}.png"
    finding = next(iter(compared.verdict), "")
    picture.unlink(missing_ok=True)
    for plot in comparison_plots(compared.comparison, finding):
        if plot.name == _PLOT:  # of one size there is no line to draw
            picture.write_bytes(png(plot))


def _without_places(line: bytes, data_dir: str | None) -> bytes:
    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: "" if key in ("host", "hostname") else clean(one) for key, one in value.items()
            }
        if isinstance(value, list):
            return [clean(one) for one in value]
        return value.replace(data_dir, "data") if isinstance(value, str) and data_dir else value

    return (
        json.dumps(clean(json.loads(line)), ensure_ascii=False, separators=(",", ":")).encode()
        + b"\n"
    )


def _page(folder: Path) -> Iterator[str]:
    sweeps = [_read_sweep(archive) for archive in sorted(folder.glob("*.tar.gz"))]
    common = [text for text in sweeps[0].verdict if all(text in sweep.verdict for sweep in sweeps)]
    yield from (
        f"# {_name(sweeps[0].environments[0])}",
        "",
        _NOTICE,
        "",
        _describe(sweeps),
        "",
        *_LEGEND,
        "",
        *common,
    )
    for sweep in sweeps:
        name = sweep.plan.recipe_name
        yield from (
            "",
            f"## {name}",
            "",
            "<!-- not run: takes minutes -->",
            "```sh",
            _command(sweep.plan),
            "```",
            "",
        )
        yield from (f"- {markdown_text(text)}" for text in sweep.verdict if text not in common)
        yield from ("", *comparison_table(sweep.comparison).markdown(), "")
        if (folder / f"{name}.png").exists():
            yield from (
                (
                    f"![{name}: samples per second over batch size, one line per"
                    f" setup]({folder.name}/{name}.png)"
                ),
                "",
            )
        warnings = merge_warnings([run.warnings for run in sweep.comparison.runs])
        yield from (f"- {markdown_text(text)}" for text in warnings)
        yield from ("", f"[Journals of these runs]({folder.name}/{name}.tar.gz)")


class _Sweep(NamedTuple):
    """What an archive holds."""

    plan: SweepPlan
    comparison: Comparison
    verdict: tuple[str, ...]
    environments: list[Environment]


def _read_sweep(archive: Path) -> _Sweep:
    with tempfile.TemporaryDirectory() as name, tarfile.open(archive) as packed:
        packed.extractall(name, filter="data")
        (root,) = Path(name).iterdir()
        compared = api.compare(sweep="@last", store=root)
        runs = [api.read_run(run.run_id, store=root).result for run in compared.comparison.runs]
        plan = read_sweep(Store(root), find_sweep(Store(root), "@last")).plan
    environments = [run.environment for run in runs if run.environment]
    verdict = (*compared.verdict, *find_caveats(compared.comparison))
    return _Sweep(plan, compared.comparison, verdict, environments)


def _name(environment: Environment) -> str:
    gpus = [gpu.name for gpu in environment.gpus]
    return ", ".join(
        [environment.cpu_model, f"{environment.usable_cores} cores", *(gpus or ["no GPU"])]
    )


def _describe(sweeps: list[_Sweep]) -> str:
    environments = [environment for sweep in sweeps for environment in sweep.environments]
    first = environments[0]
    loads = [one.load_average for one in environments if one.load_average is not None]
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(sweep.plan.created)) for sweep in sweeps})
    versions = [
        f"{title} {found.pop()}"
        for name, title in BACKEND_TITLES.items()
        if (found := {getattr(one, name) for one in environments} - {None})
    ]
    return (
        f"Measured on {' and '.join(days)}: {format_bytes(first.memory_bytes)} of memory, Python"
        f" {first.python}, Keras {first.keras}, NumPy {first.numpy}, {', '.join(versions)}. Load"
        f" average before a run: {min(loads):.1f} to {max(loads):.1f}."
    )


def _command(plan: SweepPlan) -> str:
    tables = plan.tables
    overrides = set(plan.overrides) - {"dataset.data", "measurement.seconds"}
    values = {
        key: functools.reduce(lambda table, part: table[part], key.split("."), tables)
        for key in overrides
    }
    seconds = tables["measurement"]["seconds"]
    options = [_data(plan), *map(shlex.quote, _describe_values(dict(sorted(values.items()))))]
    options += [] if plan.repeats == _REPEATS else [f"--repeats {plan.repeats}"]
    options += [] if seconds == _SECONDS else [f"--seconds {seconds:g}" if seconds else "--full"]
    lines = [" ".join([f"tfbench sweep {plan.recipe_name}", *options])]
    lines += [" ".join(f"--setup {shlex.quote(setup.label)}" for setup in plan.setups)]
    lines += [
        f"--vary {one.key}={','.join(map(_format_compact, one.values))}" for one in plan.variations
    ]
    return " \\\n  ".join(lines)


def _data(plan: SweepPlan) -> str:
    return (
        "--data synthetic" if plan.tables["dataset"]["data"] == "synthetic" else "--data-dir FOLDER"
    )


def _describe_values(values: Mapping[str, Any]) -> list[str]:
    """Returns the `--set` options for a recipe's values, spelled to be read back.

    The values come by dotted key.
    """
    texts = {
        key: value if _is_word(value) else _format_compact(value) for key, value in values.items()
    }
    return [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]


def _is_word(value: object) -> bool:
    """Says whether a value is a text that needs no quotes."""
    return isinstance(value, str) and bool(
        re.fullmatch(r"(?!true$|false$|inf$|nan$)[A-Za-z_][\w./:-]*", value)
    )


def _format_compact(value: Any) -> str:
    """Returns a value as TOML, lists without blanks."""
    return (
        f"[{','.join(map(_format_compact, value))}]"
        if isinstance(value, list)
        else format_inline(value)
    )


if __name__ == "__main__":
    machine, *stores = sys.argv[1:] or [""]
    for root in stores:
        pack(Path(root), RESULTS / machine)
    for path, text in write_pages().items():
        path.write_text(text, encoding="utf-8")
