"""Which of several arms to use, by batch size or by whatever else was varied, in plain sentences."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.fastest import Standing, find_standings
from tfbench.records.sweep import BATCH_KEY, describe_setting
from tfbench.wording import describe_span, join_words

_NUM_TOLD = 6  # stretches of batch sizes, beyond which the table tells more than a sentence


def fastest_sentences(
    comparison: Comparison, names: Mapping[str, str], describe_rows: Callable[[Sequence[Row]], str]
) -> Iterator[str]:
    """Yields which arm to use where, and by how much it is ahead of the next; nothing where no arm is the fastest.

    Args:
        comparison: Of three arms or more.
        names: What the arms are called, by their labels.
        describe_rows: Names settings.
    """
    standings = find_standings(comparison)
    winners = {one.fastest for one in standings}
    if not any(len(fastest) == 1 for fastest in winners):
        return
    if len(winners) == 1:
        where = " for every setting that was measured" if len(standings) > 1 else ""
        yield f"Use {names[standings[0].fastest[0]]}{where}: {_lead(standings, names)}."
    elif BATCH_KEY in comparison.keys:
        for network, own in _by_network(standings).items():
            yield from _by_batch_size(own, f"With {network}, use" if network else "Use", names)
    else:
        yield _by_setting(standings, names, describe_rows)


def _by_network(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    """Returns the standings of each network, or whatever else is varied, by batch size."""
    networks: dict[str, list[Standing]] = {}
    for one in sorted(standings, key=lambda one: one.row.global_batch_size or 0):
        rest = {key: value for key, value in one.row.setting.items() if key != BATCH_KEY}
        networks.setdefault(describe_setting(rest), []).append(one)
    return networks


def _by_batch_size(standings: Sequence[Standing], start: str, names: Mapping[str, str]) -> Iterator[str]:
    stretches = [(fastest, list(own)) for fastest, own in itertools.groupby(standings, key=lambda one: one.fastest)]
    if len(stretches) > _NUM_TOLD:
        return
    uses, others = [], []
    for fastest, own in stretches:
        where = _describe_stretch(own, is_all=len(own) == len(standings))
        if len(fastest) == 1:
            uses.append(f"{names[fastest[0]]} {where} ({_lead(own, names)})")
        elif fastest:
            others.append(f"{where} these runs do not decide between {join_words([names[arm] for arm in fastest])}")
        else:
            others.append(f"{where} not all arms are measured, or comparable")
    if uses:
        yield f"{'; '.join([f'{start} {join_words(uses)}', *others])}."


def _describe_stretch(own: Sequence[Standing], *, is_all: bool) -> str:
    low, high = (f"{one.row.global_batch_size:,}" for one in (own[0], own[-1]))
    if is_all:
        return "for every batch size that was measured"
    return f"at batch {low}" if len(own) == 1 else f"from batch {low} to {high}"


def _by_setting(
    standings: Sequence[Standing], names: Mapping[str, str], describe_rows: Callable[[Sequence[Row]], str]
) -> str:
    winners: dict[str, list[Standing]] = {}
    for one in standings:
        if len(one.fastest) == 1:
            winners.setdefault(one.fastest[0], []).append(one)
    uses = [
        f"{names[arm]} for {describe_rows([one.row for one in own])} ({_lead(own, names)})"
        for arm, own in winners.items()
    ]
    return f"Use {join_words(uses)}."


def _lead(own: Sequence[Standing], names: Mapping[str, str]) -> str:
    ratios = [one.ratio for one in own if one.ratio is not None]
    followers = {one.next_arm for one in own if one.next_arm}
    if not ratios:
        return "the only arm with a speed"
    following = f", {names[followers.pop()]}" if len(followers) == 1 else ""
    return f"{describe_span(ratios, ' times')} as fast as the next{following}"
