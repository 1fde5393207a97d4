"""A comparison as sections, the same in a terminal, in Markdown and in a report."""

from collections.abc import Sequence

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machines import version_warnings
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.analysis.comparison.verdict import find_caveats
from tfbench.analysis.run.warnings import merge_warnings
from tfbench.report.comparison.comparison import comparison_tables
from tfbench.report.comparison.machines import machines_section
from tfbench.report.comparison.references import reference_section
from tfbench.report.comparison.scaling import scaling_section
from tfbench.report.comparison.speeds import legend
from tfbench.report.table import Section, warnings_section
from tfbench.wording import count

NO_VERDICT = "Nothing is compared: there is one setup, or none with a speed."
_MAX_WARNINGS = 4  # kinds of them on a screen, those that most runs have


def comparison_sections(comparison: Comparison, verdict: Sequence[str], *, is_full: bool = True) -> list[Section]:
    """Returns the verdict, the table, what was published, and what speaks against the speeds.

    The table has a row a number of devices, if it is that in which the setups differ.

    Args:
        comparison: What is shown.
        verdict: Its sentences, the most important first.
        is_full: Whether to list every published result and warning.
    """
    entries = [entry for row in comparison.rows for entry in row.entries.values()]
    signs = (legend(comparison),) if any(entry.speedup or entry.interval for entry in entries) else ()
    scaling, published = find_scaling(comparison), reference_section(comparison, is_full=is_full)
    sections = [Section("Verdict", tuple(f"- {one}" for one in verdict) or (NO_VERDICT,))]
    caveats = tuple(f"i {one}" for one in find_caveats(comparison))
    if scaling:
        sections.append(scaling_section(scaling, *signs))
    else:
        sections.append(Section("Speed, samples/s", tables=comparison_tables(comparison, signs)))
    sections += [Section("", caveats)] if caveats else []
    sections += [one for one in (machines_section(comparison), published) if one]
    found = merge_warnings([run.speed_warnings for run in comparison.runs])
    told = [*version_warnings(comparison), *(found if is_full else found[:_MAX_WARNINGS])]
    if len(found) > _MAX_WARNINGS and not is_full:
        told.append(
            f"and {count(len(found) - _MAX_WARNINGS, 'more kind')} of warning, in fewer runs: see `tfbench report`"
        )
    return [*sections, *([warnings_section(told)] if told else [])]
