"""Worlds of a disk: each says what was seen, or raises Broken."""

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.faults import check
from bench.faults.clients import Committer, Crew, Ledger, Served, Watch, within
from bench.faults.loop_disk import MIB, LoopDisk

_SMALL = {
    "wal_segment_bytes": 8 * MIB,
    "wal_checkpoint_bytes": 8 * MIB,
    "offsets_topic_max_message_bytes": MIB,
    "offsets_topic_num_partitions": 2,
    "group_initial_rebalance_delay_ms": 200,
}
_STILL_S = 9.0
"""Longer than a session of the crew."""
_GROUPS, _PRIMED = 600, 60
_POWER_CUTS = 5


def _served(disk: LoopDisk, folder: Path, **settings: object) -> Served:
    return Served(disk.path / "data", folder / "log", (), **{**_SMALL, **settings})


def fills(folder: Path) -> str:
    """The file system has no room left, and then it has."""
    ledger = Ledger()
    with LoopDisk(folder) as disk, _served(disk, folder) as served, Crew(served.bootstrap) as crew:
        crew.await_all()
        watch = Watch(served)
        with Committer(served, ledger):
            within(10, lambda: ledger.count > 100, "nothing was acknowledged")
            disk.fill()
            within(60, lambda: "disk_full" in served.readyz(), "/readyz did not name the full disk")
            time.sleep(_STILL_S)
            check(ledger.refused, "no commit was refused on a full disk")
            watch.nobody_was_evicted("while the disk was full")
            disk.heal()
            within(20, lambda: "disk_full" not in served.readyz(), "it did not heal")
            before = ledger.count
            within(10, lambda: ledger.count > before + 100, "commits did not go on")
        watch.nobody_was_evicted("when the disk had room again")
        lines = served.lines("the disk is full"), served.lines("the disk has room again")
        check(lines == (1, 1), f"the log has {lines[0]} lines of the full disk and {lines[1]} of its room")
        served.server.kill()
        disk.remount()
        served.restart()
        ledger.compare(served)
    return f"{ledger.count} commits acknowledged, {ledger.refused} refused while it was full, none lost"


def _fails(folder: Path, *, forgets: bool) -> str:
    """Writes of the page cache fail in the background: a thin volume has no room, and then it has again."""
    ledger = Ledger()
    with LoopDisk(folder) as disk, _served(disk, folder, log_cleaner_min_cleanable_ratio=1.0) as served:
        _commit(served, ledger, range(1), 2)
        disk.take_thin_room()
        _commit(served, ledger, range(_PRIMED), 3)
        disk.write_back()
        disk.give_thin_room()
        check(disk.has_lost_writes(), "the fault was none: the system could write back what it had no room for")
        if forgets:
            disk.forget_inodes()
        _commit(served, ledger, range(_PRIMED, _GROUPS), 3)
        time.sleep(2)  # a checkpoint that is due
        served.restart_if_failed()
        ledger.compare(served)
        served.server.kill()
        disk.remount()
        served.restart()
        ledger.compare(served)
    return f"{ledger.count} commits acknowledged, {served.failures} restarts after a failed sync, none lost"


def fails(folder: Path) -> str:
    """The kernel still knows which files could not be written."""
    return _fails(folder, forgets=False)


def forgets(folder: Path) -> str:
    """The kernel has forgotten the files that could not be written, and the error with them."""
    return _fails(folder, forgets=True)


def _commit(served: Served, ledger: Ledger, groups: range, times: int) -> None:
    """Until each group had its commits acknowledged. A daemon whose disk failed is started again."""
    wanted = [f"group-{number:04d}" for number in groups for _ in range(times)]
    ends = time.monotonic() + 60
    while wanted:
        check(time.monotonic() < ends, f"{len(wanted)} commits were not acknowledged within a minute")
        try:
            with served.wire() as wire:
                while wanted:
                    if ledger.commit(wire, wanted[-1]):
                        wanted.pop()
                    elif time.monotonic() > ends:
                        break
        except OSError:
            time.sleep(0.2)
            served.restart_if_failed()


def loses_power(folder: Path) -> str:
    """Lose unsynced bytes again and again; the daemon ends by itself, or with its machine."""
    ledger, ended = Ledger(), 0
    with LoopDisk(folder) as disk, _served(disk, folder) as served:
        for cut in range(_POWER_CUTS):
            with Committer(served, ledger):
                wanted = ledger.count + 200 + 100 * cut
                within(30, lambda wanted=wanted: ledger.count >= wanted, "commits did not go on")  # type: ignore[misc]
                disk.cut_power()
                if cut % 2:
                    within(20, served.has_failed, "musterd did not end though its disk was gone")
                    ended += 1
                else:
                    time.sleep(0.05)
                served.server.kill()
            disk.remount()
            check(disk.was_cut(), "the power cut was none: what nobody synced is still there")
            served.restart()
            ledger.compare(served)
    return f"{ledger.count} commits acknowledged, {_POWER_CUTS} power cuts, none lost; {ended} times it ended by itself"


def freezes(folder: Path) -> str:
    """The file system stands still for longer than a session, as for a backup of the machine."""
    ledger = Ledger()
    with LoopDisk(folder) as disk, _served(disk, folder) as served, Crew(served.bootstrap) as crew:
        crew.await_all()
        watch = Watch(served)
        with Committer(served, ledger):
            within(10, lambda: ledger.count > 100, "nothing was acknowledged")
            check(disk.freeze(_STILL_S).wait(60) == 0, "the file system was not frozen")
            before = ledger.count
            within(20, lambda: ledger.count > before + 100, "commits did not go on")
            time.sleep(2)
        watch.nobody_was_evicted(f"while the disk stood still for {_STILL_S:g} s")
        crew.await_all()
        served.server.kill()
        disk.remount()
        served.restart()
        ledger.compare(served)
    return f"{ledger.count} commits acknowledged, none lost; nobody was evicted in {_STILL_S:g} s"


def stops(folder: Path) -> str:
    """The process stands still for longer than a session, as on a paused machine."""
    ledger = Ledger()
    with LoopDisk(folder) as disk, _served(disk, folder) as served, Crew(served.bootstrap) as crew:
        crew.await_all()
        watch = Watch(served)
        with Committer(served, ledger):
            within(10, lambda: ledger.count > 100, "nothing was acknowledged")
            served.server.process.send_signal(signal.SIGSTOP)
            time.sleep(_STILL_S)
            served.server.process.send_signal(signal.SIGCONT)
            before = ledger.count
            within(20, lambda: ledger.count > before + 100, "commits did not go on")
            time.sleep(2)
        watch.nobody_was_evicted(f"while the process stood still for {_STILL_S:g} s")
        crew.await_all()
    return f"{ledger.count} commits acknowledged; nobody was evicted in {_STILL_S:g} s"


DISK_WORLDS: Mapping[str, Callable[[Path], str]] = {
    "fills": fills,
    "fails": fails,
    "forgets": forgets,
    "power": loses_power,
    "freezes": freezes,
    "stops": stops,
}
