"""Compares what was written to a topic with what members of a group have read."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

PartitionOffset = tuple[int, int]
"""A partition and an offset."""


class Deliveries(NamedTuple):
    """Records of a topic that a group has been given."""

    written: int
    missing: list[PartitionOffset]
    strange: list[PartitionOffset]
    """Records that nobody wrote."""
    again: int
    """Number of times that a record was given to a member after another time."""
    by_member: dict[str, int]

    @property
    def faults(self) -> list[str]:
        """Return what must not be. Records that come again are no fault: that is at least once."""
        faults = []
        if self.missing:
            faults.append(f"{len(self.missing)} of {self.written} records were read by nobody, as {self.missing[:3]}")
        if self.strange:
            faults.append(f"{len(self.strange)} records were read that nobody wrote, as {self.strange[:3]}")
        return faults

    def __str__(self) -> str:
        by_whom = ", ".join(f"{name} {count:,}" for name, count in self.by_member.items())
        return f"{self.written:,} written, {len(self.missing)} missing, {self.again:,} read again; {by_whom}"


def deliveries(written: Collection[PartitionOffset], read: Mapping[str, Iterable[PartitionOffset]]) -> Deliveries:
    """Compare what was written with what each member has read."""
    by_member = {name: Counter(places) for name, places in read.items()}
    total = sum(by_member.values(), Counter[PartitionOffset]())
    wanted = set(written)
    return Deliveries(
        written=len(wanted),
        missing=sorted(wanted - total.keys()),
        strange=sorted(total.keys() - wanted),
        again=total.total() - len(total),
        by_member={name: counted.total() for name, counted in by_member.items()},
    )
