"""Judgement of what transactions left behind: pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from interop.committed import Committed

_SHOWN = 5


def of_copies(written: Iterable[str], count: int) -> list[str]:
    """Return what is wrong with a topic that must hold each number below `count` once."""
    found = Counter(written)
    wanted = {str(number) for number in range(count)}
    faults = []
    if missing := sorted(wanted - found.keys(), key=int):
        faults.append(f"{len(missing)} of {count} are missing: {_some(missing)}")
    if twice := [one for one, times in found.items() if times > 1]:
        faults.append(f"{len(twice)} are there more than once: {_some(twice)}")
    if strange := sorted(found.keys() - wanted):
        faults.append(f"{len(strange)} were never written: {_some(strange)}")
    return faults


def of_counts(written: Iterable[str], count: int) -> list[str]:
    """Return what is wrong with lines "remainder count number": each number once, and each remainder's counts 1, 2,
    3 ... without a gap, or a number had an effect on the state twice or not at all."""
    lines = [line.split() for line in written]
    faults = of_copies([number for _, _, number in lines], count)
    by_key: dict[str, list[int]] = {}
    for key, counted, _ in lines:
        by_key.setdefault(key, []).append(int(counted))
    for key, counts in sorted(by_key.items()):
        if counts != list(range(1, len(counts) + 1)):
            faults.append(f"remainder {key} was counted {counts[:3]} ... {counts[-3:]}, which are {len(counts)}")
    return faults


def of_offsets(committed: Mapping[int, int], records: Iterable[Committed]) -> list[str]:
    """Return where a group's committed offsets, by partition, are not after the last of the records it has read."""
    last: dict[int, int] = {}
    for record in records:
        last[record.partition] = max(record.offset, last.get(record.partition, -1))
    return [
        f"partition {partition}: the group's offset is {committed.get(partition)}, its last record has {offset}"
        for partition, offset in sorted(last.items())
        if committed.get(partition, -1) <= offset
    ]


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:_SHOWN]) + (" ..." if len(values) > _SHOWN else "")
