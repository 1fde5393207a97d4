"""What a comparison shows, in plain sentences, and no more than its intervals support."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Row
from tfbench.comparisons.equality import Difference, name_differences
from tfbench.comparisons.failures import UNKNOWN
from tfbench.comparisons.fastest import describe_where, which_to_use
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import Finding, Speedup, describe_ratio
from tfbench.comparisons.machines import machine_caveats, machine_sentences, spans_machines
from tfbench.comparisons.openness import (
    Obstacle,
    advise,
    describe_obstacle,
    find_obstacle,
)
from tfbench.comparisons.questions import MARGIN
from tfbench.comparisons.scaling import Scaling, find_scaling
from tfbench.recipe.backend_support import title_of
from tfbench.runs.warnings import MIN_HEADROOM, POSSIBLE_HEADROOM
from tfbench.store.brief import name_setups
from tfbench.sweeps.plan import AGAIN
from tfbench.wording import count, format_share, join_words

_TEMPLATES: dict[Finding, str] = {
    "faster": "{setup} {verb} faster than {base}{where}: {ratio}.",
    "slower": "{setup} {verb} slower than {base}{where}: {ratio}.",
    "equal": "{setup} and {base} are equally fast within {margin}{where}: {ratio}.",
    "too noisy to tell": "Inconclusive{where}{why}: {setup} may be {open} as fast as {base}.",
    "not judged": "{setup} {verb} not judged{where} ({num}): {ratio}.",
}
_ORDER = list(_TEMPLATES)
_UNKNOWN = "Inconclusive{where}{why}: the runs vary too much to compare {setup} with {base}."
_UNKNOWN_ABOVE = 10.0  # times the low end of what may be: a range that tells nothing
# setups; of more only those have a sentence of which something is not known
_NUM_DESCRIBED = 3
_NO_GAIN = 1.02  # times as fast, at most
_NUM_FAILED = 4  # reasons of failures that have a sentence; the table marks all


class _Place(NamedTuple):
    """A row, and the speed-up of a setup there."""

    row: Row
    speedup: Speedup


def find_verdict(comparison: Comparison) -> tuple[str, ...]:
    """Returns the sentences of the verdict, the most important first.

    Of several machines the one with the best figures; then which setup to use where, if that can be
    said; for each beside the baseline where it is faster, slower, not to be told apart, or not
    judged; what failed or is missing; and what would tell more. Setups that differ in their number
    of devices alone are called by it.
    """
    scaling = find_scaling(comparison)
    names = _find_names(comparison, scaling)
    if comparison.setups[1:] == (f"{comparison.baseline} {AGAIN}",):
        return (_by_chance(comparison), *_missing(comparison, names))
    uses = which_to_use(comparison, names)
    sentences = [*machine_sentences(comparison), *_unequal(comparison), *uses]
    only_open = bool(uses) and len(comparison.setups) > _NUM_DESCRIBED
    for setup in comparison.setups:
        if setup != comparison.baseline:
            words = _find_words(comparison, setup, names, scaling)
            sentences += _of_setup(comparison, setup, words, only_open=only_open)
    sentences += _describe_limits(comparison, names)
    return (*sentences, *_missing(comparison, names), *_advice(comparison))


def _find_names(comparison: Comparison, scaling: Scaling | None) -> dict[str, str]:
    """Returns what sentences call setups.

    By number of devices, backend or label, whatever they differ in.
    """
    if scaling is None:
        entries = comparison.measured_entries()
        backends = {entry.setup: entry.runs[0].backend for entry in entries}
        return name_setups(comparison.setups, backends)
    noun = "replica" if scaling.has_replicas else "device"
    names = {setup: setup for setup in comparison.setups}
    for point in scaling.points:
        name = count(point.num_devices, noun)
        if point.mode and not scaling.has_replicas:
            name += f" ({point.mode})"
        names[point.entry.setup] = name
    return names


def _find_words(
    comparison: Comparison, setup: str, names: Mapping[str, str], scaling: Scaling | None
) -> dict[str, str]:
    """Returns what templates say of a setup beside the baseline, wherever it was run."""
    words = {
        "setup": names[setup],
        "base": names[comparison.baseline],
        "verb": "is",
        "efficiency": "",
    }
    if scaling:  # beside one device, all others are called by a number of devices: "2 replicas"
        words["verb"] = "are"
        words["efficiency"] = scaling.describe_efficiency(setup)
    return words


def _list_speedups(comparison: Comparison, setup: str) -> list[_Place]:
    """Returns the rows where a setup has a speed-up, with it; not where runs are lost."""
    places = []
    for row in comparison.rows:
        speedup = row.entries[setup].speedup
        if speedup and not row.has_lost_runs:
            places.append(_Place(row, speedup))
    return places


def _where(places: Sequence[_Place], comparison: Comparison) -> str:
    return describe_where([row for row, _ in places], comparison)


def _by_chance(comparison: Comparison) -> str:
    """Says what differs where every setup was compared with itself."""
    speedups = _list_speedups(comparison, comparison.setups[1])
    judged = [place for place in speedups if place.speedup.low is not None]
    if not judged:
        return "Not judged: two rounds are needed (--repeats 3)."
    largest = max(judged, key=lambda place: abs(math.log(place.speedup.ratio)))
    where = _where([largest], comparison)
    found = f"Largest difference by chance: {describe_ratio(largest.speedup)}{where}."
    wrong = [place for place in judged if place.speedup.judgement in ("faster", "slower")]
    if wrong:
        return f"{found} Judged different from itself{_where(wrong, comparison)}."
    noisiest = max(judged, key=lambda place: place.speedup.noise_limit or 0.0)
    limit = format_share(noisiest.speedup.noise_limit or 0.0)
    where = _where([noisiest], comparison) if len(judged) > 1 else ""
    return f"{found} Such runs do not show differences below {limit}{where}."


def _of_setup(
    comparison: Comparison, setup: str, words: dict[str, str], *, only_open: bool
) -> Iterator[str]:
    """Yields what was found of a setup beside the baseline, a sentence a finding.

    With `only_open`, nothing of a setup that is faster or slower wherever it was compared.
    """
    hints = defaultdict(list)  # whose own interval says more than the table
    findings = defaultdict(list)
    speedups = _list_speedups(comparison, setup)
    speedups.sort(key=lambda place: _ORDER.index(place.speedup.finding))
    for place in speedups:
        finding = place.speedup.finding
        obstacle = None
        if finding == "too noisy to tell":
            obstacle = find_obstacle(comparison, place.row, setup)
        if place.speedup.is_suggested:
            hints[obstacle].append(place)
        else:
            findings[finding, obstacle].append(place)
    is_open = hints or any(finding not in ("faster", "slower") for finding, _ in findings)
    if only_open and not is_open:
        return
    for (finding, obstacle), places in findings.items():
        words |= _describe_place(comparison, setup, places, obstacle)
        sentence = _describe_finding(finding, places, words)
        yield f"{sentence}{_describe_cause(places, setup)}" if finding == "slower" else sentence
    for obstacle, places in hints.items():
        words |= _describe_place(comparison, setup, places, obstacle)
        yield _describe_hints(places, words)


def _describe_place(
    comparison: Comparison, setup: str, places: Sequence[_Place], obstacle: Obstacle | None
) -> dict[str, str]:
    """Returns where a setup was found to be so, and why something is open there."""
    rows = [row for row, _ in places]
    return {
        "where": describe_where(rows, comparison),
        "why": describe_obstacle(comparison, rows, setup, obstacle),
    }


def _describe_finding(finding: Finding, places: Sequence[_Place], words: Mapping[str, str]) -> str:
    """Returns the sentence of a finding at some configurations.

    Args:
        finding: Any but a hint.
        places: The configurations, and the speed-ups there.
        words: Of the templates: setup, verb, base, efficiency, where and why.
    """
    speedups = [speedup for _, speedup in places]
    low = min(speedup.low or 0.0 for speedup in speedups)
    high = max(speedup.high or 0.0 for speedup in speedups)
    template = _TEMPLATES[finding]
    if finding == "too noisy to tell" and high > _UNKNOWN_ABOVE * low:
        template = _UNKNOWN
    most_runs = max(speedup.num for speedup in speedups)
    return template.format(
        **words,
        ratio=_ratios(speedups, words["efficiency"]),
        margin=MARGIN,
        num="one run" if most_runs == 1 else "too few runs",
        open=f"{low:.2f}x to {high:.2f}x",
    )


def _describe_hints(hints: Sequence[_Place], words: Mapping[str, str]) -> str:
    speedups = [speedup for _, speedup in hints]
    num_family = max(speedup.num_family for speedup in speedups)
    found = f"{words['setup']} may differ{words['where']}: {_ratios(speedups)}"
    if not num_family:
        return f"{found}, after too few runs to judge."
    among = f"not significant among {count(num_family, 'comparison')}"
    return f"{found}, {among}{words['why']}."


def _describe_cause(places: Sequence[_Place], setup: str) -> str:
    """Returns what was measured that makes a setup slower, where it is the slowest.

    A sentence after a blank; "" where nothing is known.
    """
    slowest, _ = min(places, key=lambda place: place.speedup.ratio)
    entry = slowest.entries[setup]
    if entry.transfer_share:
        return f" Communication takes {100 * entry.transfer_share:.0f} % of a step."
    return ""


def _describe_limits(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Yields for each setup where its input, not its device, limits the speed."""
    for setup in comparison.setups:
        rows = []
        shares = []
        for row in comparison.rows:
            share = row.entries[setup].input_share
            # A part that takes longer than the whole step explains nothing.
            if share is not None and 1 / MIN_HEADROOM < share <= 1 / POSSIBLE_HEADROOM:
                rows.append(row)
                shares.append(share)
        if not rows:
            continue
        least = min(shares)
        part = format_share(least)
        bound = "about {:.2f}x"
        if len(rows) > 1:
            part += " or more"
        elif interval := log_interval(rows[0].entries[setup].input_shares):
            part += f" ({format_share(interval.low)} to {format_share(interval.high)})"
            least = interval.low
            bound = "{:.2f}x at most"
        gain = "nothing" if least * _NO_GAIN >= 1 else bound.format(1 / least)
        where = describe_where(rows, comparison)
        yield (
            f"The input pipeline alone takes {part} of a step of {names[setup]}{where}: a faster"
            f" device would gain {gain}."
        )


def _advice(comparison: Comparison) -> Iterator[str]:
    """Yields what would tell more, where something is open that no planned run is going to tell."""
    is_going_on = any(entry.outcome in UNKNOWN for entry in comparison.all_entries())
    if is_going_on or spans_machines(comparison):
        return
    obstacles = set[Obstacle]()
    for row in comparison.rows:
        for setup, entry in row.entries.items():
            if entry.speedup and entry.speedup.is_between_sessions:
                obstacles.add("sessions")
            elif entry.speedup and entry.speedup.finding == "too noisy to tell":
                obstacles.add(find_obstacle(comparison, row, setup))
    advice = advise(comparison, obstacles)
    if advice:
        yield advice
    elif any(speedup.judgement == "not judged" for speedup in comparison.all_speedups()):
        yield "Try --repeats 3."


def _missing(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which configurations failed and why, and how many runs are lost or not made."""
    entries = comparison.all_entries()
    num_without_runs = 0
    with_lost = []
    failed = defaultdict(list)
    for row in comparison.rows:
        if row.has_lost_runs:
            with_lost.append(row)
        for entry in row.entries.values():
            if entry.outcome in UNKNOWN:
                num_without_runs += entry.speed is None
            elif entry.outcome != "FINISHED":
                failed[entry.setup, entry.outcome, entry.reason.rstrip(".")].append(row)
    failures = list(failed.items())
    for (setup, outcome, reason), rows in failures[:_NUM_FAILED]:
        yield f"{names[setup]} failed{describe_where(rows, comparison)}: {outcome}, {reason}."
    num_more = sum(len(rows) for _, rows in failures[_NUM_FAILED:])
    if num_more:
        yield f"{count(num_more, 'more result')} failed."
    missing = comparison.missing
    if missing and missing.num_missing:
        are = "is" if missing.num_missing == 1 else "are"
        yield (
            f"Incomplete: {count(missing.num_missing, 'run')} of {missing.num_planned} {are}"
            f" missing. `{missing.command}` measures what is missing."
        )
        if with_lost:
            were = "was" if missing.num_lost == 1 else "were"
            yield (
                f"Lost{describe_where(with_lost, comparison)}: no journal says what came of"
                f" {count(missing.num_lost, 'run')} that {were} started. So no setup is recommended"
                " there."
            )
    elif num_without_runs:
        yield f"Incomplete: {num_without_runs} of {len(entries)} results are without runs."


def find_caveats(comparison: Comparison) -> Iterator[str]:
    """Yields what limits the verdict, a sentence each."""
    runs = comparison.runs
    scaling = find_scaling(comparison)
    yield from _unequal(comparison, is_compared=True)
    if comparison.shares_cores:
        yield "Logical CPU devices share all cores: this shows overhead, not scaling."
    if scaling and scaling.kind == "weak":
        yield "Weak scaling: the global batch grows with the devices. Compare speed, not accuracy."
    if comparison.is_synthetic:
        yield "Synthetic data: compare speed, ignore accuracy."
    if len({run.backend for run in runs}) > 1:
        compilers = [f"{title_of(run.backend)}: {run.settings.get('compiler')}" for run in runs]
        yield (
            "Backends start from equal weights and batches. They compile steps"
            f" ({'; '.join(dict.fromkeys(compilers))}), load batches and draw dropout each in its"
            " own way."
        )
    if any(speedup.is_between_sessions for speedup in comparison.all_speedups()):
        drift = f"{100 * comparison.settings.session_scatter:g} %"
        yield (
            f"Ratios between sessions (s) allow for levels that drift by {drift} from one session"
            " to the next, which more rounds do not show."
        )
    yield from machine_caveats(comparison)
    lengths = {run.length for run in runs}
    if len(lengths) > 1:
        yield f"Runs of different lengths count alike: {join_words(sorted(lengths))}."
    num_left_out = sum(len(entry.left_out) for entry in comparison.all_entries())
    if num_left_out:
        yield (
            f"{count(num_left_out, 'run')} left out: another machine than most of the"
            " configuration, or other versions, settings or network than the newest. Compare with"
            " `tfbench diff RUN RUN`."
        )


def _unequal(comparison: Comparison, *, is_compared: bool = False) -> Iterator[str]:
    """Says which settings of setups differ although they must be equal.

    Such setups are not compared, or with `is_compared` they nevertheless are.
    """
    differences: list[Difference] = []
    for entry in comparison.all_entries():
        if bool(entry.speedup) is is_compared:
            differences.extend(entry.unequal)
    if differences:
        start = "Compared although" if is_compared else "Not comparable:"
        yield f"{start} setups differ in {join_words(name_differences(differences))}."


def _ratios(speedups: Sequence[Speedup], efficiency: str = "") -> str:
    """Returns the ratios of one configuration, of two, or the range of several.

    They read "0.68x [0.59, 0.77]", "0.67x and 0.50x", and "0.50x to 0.67x (between sessions)".
    """
    ratios = [speedup.ratio for speedup in speedups]
    link = "and"
    if len(ratios) > 2:
        ratios.sort()
        link = "to"
    text = f"{ratios[0]:.2f}x"
    last = f"{ratios[-1]:.2f}x"
    if len(ratios) == 1:
        text = describe_ratio(speedups[0])
    elif text != last:
        text += f" {link} {last}"
    if all(speedup.is_between_sessions for speedup in speedups):
        efficiency += " (between sessions)"
    return f"{text}{efficiency}"
