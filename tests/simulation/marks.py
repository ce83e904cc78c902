"""Each fault, with its mark: the count that shows in a run that the daemon has met it. A fault that is no longer
injected, or whose handling is no longer reached, is a mark that stays 0, and that is a failure.

`python -m tests.simulation.marks < docs/testing.md` prints the table into that page.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

BEGIN, END = "<!-- faults -->", "<!-- end of faults -->"


class Fault(NamedTuple):
    """`kind` is that of the decision that injects it. `mark` counts what came of it; `is_rare`: many seeds go by
    without it, and the test that stages it is what hits it in every run of the tests. `beside` is what else must be
    injected then."""

    name: str
    kind: str
    mark: str
    is_rare: bool = False
    beside: tuple[str, ...] = ()


def _rare(name: str, kind: str, mark: str, *beside: str) -> Fault:
    return Fault(name, kind, mark, is_rare=True, beside=beside)


FAULTS: tuple[Fault, ...] = (
    Fault("delay", "delay", "delays"),
    Fault("another order between connections", "reorder", "connections overtaken by others"),
    Fault("a request sent again on a new connection", "resend", "requests sent again on a new connection"),
    Fault("one-way cut, towards the daemon", "mute", "one-way cuts"),
    Fault("one-way cut, towards the member", "deaf", "one-way cuts"),
    Fault("half-open connection", "half-open", "half-open connections"),
    Fault("cut, at any byte", "cut", "cut connections"),
    Fault("reset in the middle of a reply", "reset in reply", "replies broken off"),
    Fault("reply lost after its effect", "lose reply", "replies lost after their effect"),
    Fault("member pauses longer than its session", "stall", "evictions"),
    Fault("daemon pauses", "pause", "daemons that stood still"),
    Fault("daemon pauses, and deadlines move by the time lost", "pause", "stalls left out"),
    Fault("member killed", "kill", "evictions"),
    Fault("stale commit", "kill", "refused late commits"),
    Fault("member leaves", "leave", "notes: member left"),
    Fault("static member replaced", "replace", "notes: static member replaced"),
    Fault("duplicate instance id", "duplicate", "instance ids used twice"),
    Fault("join storm", "storm", "join storms"),
    Fault("leader dies before its sync", "leader dies", "leaders that died before their sync"),
    Fault("member never syncs", "never sync", "notes: member never synced"),
    Fault("foreign assignment", "foreign", "assignments to strangers"),
    Fault("oversized assignment", "oversized", "appends refused: RECORD_TOO_LARGE"),
    Fault("power failure between steps", "power", "deaths with something unsynced", beside=("slow disk",)),
    _rare("torn batch", "power", "torn tails cut", "slow disk"),
    Fault("power failure inside a flush", "power in job", "power failures inside a FlushJob"),
    _rare("power failure inside a checkpoint", "power in job", "power failures inside a CheckpointJob"),
    _rare("power failure inside a swap of compaction", "power in swap", "power failures inside a swap of segments"),
    _rare("power failure inside a start", "power in job", "power failures inside a start", "daemon killed"),
    _rare("power failure inside a clean stop", "power in job", "power failures inside a clean stop", "restart"),
    Fault("daemon killed, page cache kept", "daemon killed", "daemons killed"),
    Fault("restart with another config", "restart", "starts with another config"),
    Fault("slow disk", "slow disk", "slow syncs"),
    Fault("full disk", "full", "appends refused: DISK_FULL"),
    Fault("full disk has room again", "full", "disks that healed"),
    Fault("short write", "full", "short writes", is_rare=True),
    Fault("disk error", "fail", "stops because the disk failed"),
    Fault("file system that stands still", "still", "jobs that waited for a file system that stood still"),
    Fault("write lost before its sync, and forgotten", "lost write", "stops because a sync failed"),
    Fault("sync that fails, ENOSPC and EDQUOT included", "lost sync", "stops because a sync failed"),
    Fault("bit flip that damages", "flip", "flipped bits that were found"),
    Fault("bit flip in a snapshot or a spare", "flip", "flipped bits that did no harm"),
    Fault("bit flip where nobody reads", "flip", "flipped bits that nobody read"),
    Fault("clock jumps forward", "clock", "clock jumps forward"),
    Fault("clock jumps back", "clock", "clock jumps back"),
    Fault("commit of very many partitions", "huge commit", "huge commits"),
    Fault("group held", "hold", "notes: group held"),
    Fault("rebalance held", "hold", "notes: hold over"),
    Fault("transaction committed", "ledger", "committed transactions"),
    Fault("transaction aborted", "ledger", "aborted transactions"),
    Fault("offset kept from readers of stable ones", "ledger", "unstable offsets"),
)


def missing(counts: Mapping[str, int], *, with_rare: bool = False) -> list[str]:
    """Return the marks that were not hit."""
    return sorted({fault.mark for fault in FAULTS if not counts.get(fault.mark) and (with_rare or not fault.is_rare)})


def table() -> str:
    """Return the table for the page."""
    lines = ["| fault | decision | mark | staged by |", "|---|---|---|---|"]
    for fault in FAULTS:
        by = "`test_faults.py`" if fault.is_rare else "`test_faults.py`, `test_simulation.py`"
        lines.append(f"| {fault.name} | {fault.kind} | {fault.mark} | {by} |")
    return "\n".join(lines)


def printed(page: Iterable[str]) -> str:
    """Return the page with the current table."""
    text = "".join(page)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    sys.stdout.write(printed(sys.stdin))
