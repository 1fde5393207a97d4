"""A comparison as one HTML file that needs nothing beside it."""

import datetime
from collections.abc import Iterator, Sequence

from tfbench import __version__
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.references import match_references
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.metrics import LEDGER_ENTRIES
from tfbench.records.sweep import describe_setting, format_value, list_cells
from tfbench.report.comparison.comparison import table_cells
from tfbench.report.comparison.plots import median_ledgers
from tfbench.report.comparison.references import DISCLAIMER, describe_match, describe_pair, name_reference
from tfbench.report.comparison.scaling import scaling_cells, scaling_notes, scaling_title
from tfbench.report.comparison.speeds import LEGEND
from tfbench.report.formats import format_bytes, format_number
from tfbench.report.html.contents import Image, ReportContents
from tfbench.report.html.facts import describe_environment, group_cautions
from tfbench.report.html.page import Html, bullets, code, folded, page, pairs, picture, section, table, text
from tfbench.wording import count

MAX_RUNS = 1000  # in the list of runs
_SHOWN_SECONDS = 0.005  # from which an entry of the ledger has a row
_CLASSES = {" +": "faster", " -": "slower"}
_SHARED_CORES = "logical devices that share the cores of one processor"


def render_report(contents: ReportContents) -> str:
    """Returns the report as HTML."""
    comparison = contents.comparison
    title = _title(comparison)
    kind = f"sweep {contents.plan.sweep_id}" if contents.plan else "comparison of runs"
    hint = text("Wide tables and plots scroll sideways.", of_class="note narrow")
    lead = text(_lead(comparison, kind), of_class="lead")
    return page(
        f"{title}: {kind}, tfbench report",
        __version__,
        Html(f"<header>\n{text(title, 'h1')}\n{lead}\n{hint}\n</header>"),
        _verdict(contents.verdict),
        section("What was measured", pairs(_describe_plan(contents))),
        _speeds(comparison),
        _scaling(comparison),
        section("Plots", *(picture(i.png, i.alt) for n, i in contents.images.items() if n != "ledger.png")),
        _references(comparison),
        _cautions(comparison),
        _failures(comparison),
        _ledger(comparison, contents.images.get("ledger.png")),
        _environment(contents),
        _reproduction(contents),
        section("Runs", _list_runs(comparison)),
        text(f"Made by tfbench {__version__} on {_date(contents.created)}.", "footer"),
    )


def _title(comparison: Comparison) -> str:
    return ", ".join(dict.fromkeys(run.title for run in comparison.runs)) or ", ".join(comparison.recipes) or "Runs"


def _lead(comparison: Comparison, kind: str) -> str:
    others = [arm for arm in comparison.arms if arm != comparison.baseline]
    against = f" against {', '.join(others)}" if others else ""
    counts = f"{count(len(comparison.rows), 'setting')}, {count(len(comparison.runs), 'run')}"
    return f"{comparison.baseline}{against}: {counts} ({kind})"


def _verdict(sentences: Sequence[str]) -> Html:
    said = sentences or ("Nothing is compared: there is one arm, or none with a speed.",)
    return section("Verdict", bullets(said), of_class="verdict")


def _describe_plan(contents: ReportContents) -> Iterator[tuple[str, str]]:
    comparison, plan = contents.comparison, contents.plan
    runs, scaling = comparison.runs, find_scaling(comparison)
    yield "recipe", ", ".join(comparison.recipes)
    yield "data", "synthetic, made on the spot" if comparison.is_synthetic else "real"
    for key in comparison.keys:
        values = dict.fromkeys(format_value(row.setting.get(key)) for row in comparison.rows)
        yield key, ", ".join(values)
    if scaling:
        yield "scaling", scaling_title(scaling)
    for arm in comparison.arms:
        mark = " (baseline)" if arm == comparison.baseline else ""
        yield f"arm{mark}", f"{arm}: {_describe_hardware(comparison, arm)}"
    if plan:
        cells = len(list_cells(plan))
        yield "rounds", f"{plan.num_rounds}, the arms of a setting taking turns; {count(cells, 'run')} planned"
        measurement = plan.tables.get("measurement", {})
        if (seconds := measurement.get("seconds")) is not None:
            yield "each run", f"{seconds:g} s of steady steps in a process of its own, without validation"
        elif measurement.get("steps") is None:
            yield "each run", f"{plan.tables['training']['epochs']} epochs in a process of its own"
        if plan.run_timeout_seconds is not None:
            yield "time limit", f"{plan.run_timeout_seconds:g} s a run"
        if plan.memory_limit_bytes is not None:
            yield "memory limit", f"{format_bytes(plan.memory_limit_bytes)} a run"
    if runs:
        times = [run.created for run in runs]
        yield "measured", f"{_date(min(times))} to {_date(max(times))}"


def _describe_hardware(comparison: Comparison, arm: str) -> str:
    runs = [run for row in comparison.rows for run in row.entries[arm].runs]
    if not runs:
        return "no run of it has a speed"
    names = sorted({", ".join(dict.fromkeys(run.hardware)) or "unknown hardware" for run in runs})
    replicas = count(int(runs[0].metrics.get("num_replicas") or 1), "replica")
    shared = f", {_SHARED_CORES}" if arm in comparison.shares_cores else ""
    return f"{replicas} on {'; '.join(names)}{shared}"


def _speeds(comparison: Comparison) -> Html:
    header, rows = table_cells(comparison)
    return section(
        "Speed",
        table(
            "speed of every setting under every arm",
            header,
            ([cell.replace("+-", "\N{PLUS-MINUS SIGN} ") for cell in row] for row in rows),
            text_columns=[place for place, key in enumerate(comparison.keys) if not _is_numeric(comparison, key)],
            classes=_CLASSES,
        ),
        text(LEGEND, of_class="note"),
        text("Beside a speed stands half the width of its 95 % interval.", of_class="note"),
    )


def _scaling(comparison: Comparison) -> Html:
    scaling = find_scaling(comparison)
    if not scaling:
        return Html("")
    header, cells = scaling_cells(scaling)
    rows = [[cell.replace("+-", "\N{PLUS-MINUS SIGN} ") for cell in row] for row in cells]
    return section(
        "Scaling",
        text(f"{scaling_title(scaling)}."),
        table("speed by number of replicas", header, rows, classes=_CLASSES),
        *(text(note, of_class="note") for note in scaling_notes(scaling)),
    )


def _is_numeric(comparison: Comparison, key: str) -> bool:
    return all(isinstance(row.setting.get(key), int | float) for row in comparison.rows)


def _references(comparison: Comparison) -> Html:
    matches = match_references(comparison)
    if not matches:
        return Html("")
    names = list(dict.fromkeys(name for match in matches for name in match.reference["figures"]))
    rows = [
        [
            name_reference(match.reference),
            describe_match(match),
            *(format_number(match.reference["figures"].get(name)) for name in names),
        ]
        for match in matches
    ]
    pairs = [f"{name_reference(match.reference)}: {describe_pair(pair)}" for match in matches for pair in match.pairs]
    remarks = [f"{one['hardware']}: {one['notes']}" for one in comparison.references if one.get("notes")]
    remarks += [f"Source: {source}" for source in dict.fromkeys(one["source"] for one in comparison.references)]
    header = ["hardware and devices", "with these runs", *names]
    return section(
        "Published figures",
        table("published figures", header, rows, long_columns=(0, 1)),
        *([bullets(pairs), text(DISCLAIMER, of_class="note")] if pairs else []),
        bullets(remarks),
    )


def _cautions(comparison: Comparison) -> Html:
    runs = comparison.runs
    cautions = [f"run {run_id} is left out: {why}" for run_id, why in comparison.unreadable.items()]
    cautions += [f"{num} of {count(len(runs), 'run')}: {caution}" for caution, num in group_cautions(runs)]
    if not cautions:
        return section("Cautions", text("None of the runs carries one.")) if runs else Html("")
    note = "Figures within a caution are those of one run; of others they may differ."
    return section("Cautions", bullets(cautions), text(note, of_class="note"))


def _failures(comparison: Comparison) -> Html:
    failed: list[tuple[Row, Entry]] = [
        (row, entry)
        for row in comparison.rows
        for entry in row.entries.values()
        if entry.speed is None or entry.outcome != "FINISHED"
    ]
    rows = [
        [describe_setting(row.setting) or "the recipe as it is", entry.arm, entry.outcome, entry.reason]
        for row, entry in failed
    ]
    header = ["setting", "arm", "outcome", "reason"]
    return section(
        "Without a speed, or not in every round",
        table("points without a speed", header, rows, text_columns=(0, 1, 2), long_columns=(3,)),
    )


def _ledger(comparison: Comparison, image: Image | None) -> Html:
    ledgers = median_ledgers(comparison)
    meanings = LEDGER_ENTRIES | {"unaccounted": "what is in no entry"}
    rows = [
        [name.replace("_", " "), *(f"{ledger[name]:.2f}" for ledger in ledgers.values()), meanings[name]]
        for name in next(iter(ledgers.values()), {})
        if any(abs(ledger[name]) >= _SHOWN_SECONDS for ledger in ledgers.values())
    ]
    header = ["entry", *(f"{arm}, s" for arm in ledgers), "meaning"]
    return section(
        "Where the time of a measuring process went",
        picture(image.png, image.alt) if image else Html(""),
        table("ledger of each arm", header, rows, long_columns=(0, 1)),
        text("Medians over all runs of an arm, in seconds.", of_class="note") if rows else Html(""),
    )


def _environment(contents: ReportContents) -> Html:
    environment = contents.environment
    differing = [
        [name, "; ".join(f"{value} ({count(num, 'run')})" for value, num in values.items())]
        for name, values in contents.differing.items()
    ]
    said = "All runs were made in the same environment." if len(contents.comparison.runs) > 1 else ""
    return section(
        "Environment",
        pairs(describe_environment(environment)) if environment else Html(""),
        text("As of the newest run. What differs between runs:" if differing else said, of_class="note"),
        table("what differs between the runs", ["", "values"], differing, text_columns=(0,), long_columns=(1,)),
    )


def _reproduction(contents: ReportContents) -> Html:
    name = f"{contents.recipe_name}.toml"
    first = f"Save the recipe below as {name}, then:" if contents.needs_recipe_file else "With the same data:"
    return section(
        "How to reproduce",
        text(first) if contents.commands else Html(""),
        code("\n".join(contents.commands)) if contents.commands else Html(""),
        folded(f"The recipe as resolved, defaults written out ({name})", code(contents.recipe_toml)),
        text("tfbench export RUN writes all that was measured in a run.", of_class="note"),
    )


def _list_runs(comparison: Comparison) -> Html:
    listed = [(row, run) for row in comparison.rows for entry in row.entries.values() for run in entry.runs]
    rows = [
        [run.run_id, run.name, run.arm, describe_setting(row.setting), format_number(run.speed), _date(run.created)]
        for row, run in listed[:MAX_RUNS]
    ]
    header = ["id", "name", "arm", "setting", "samples/s", "asked for"]
    shown = table("all runs with a speed", header, rows, text_columns=(0, 1, 2, 3))
    more = f"The first {MAX_RUNS} of {len(listed)} runs." if len(listed) > MAX_RUNS else ""
    return folded(count(len(listed), "run") + " with a speed", text(more) if more else Html(""), shown)


def _date(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"
