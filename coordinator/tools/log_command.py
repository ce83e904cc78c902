"""EDGE: `musterd log verify|dump`, which reads a data folder and changes nothing in it. A daemon may be using it."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

from coordinator.tools.log_dump import Entry, entries_of, frame_entry, text_of
from coordinator.topics.records import TOPICS_LOG
from partition_log.disk.disk import ReadOnlyDisk
from partition_log.errors import LogDamaged
from partition_log.inspection.findings import ScanTotals, Severity
from partition_log.inspection.inspector import Inspector
from partition_log.store.recovery import LOCK_FILE

SOUND, DAMAGED, MISUSED = 0, 1, 2
_IN_USE = "in use by another process: what it writes meanwhile may not be seen, or only in part"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if the logs read are sound, 1 if one is damaged or unreadable, 2 for wrong arguments."""
    given = _given(arguments)
    folder = given.folder.rstrip("/") or "/"
    if not is_data_folder(folder):
        print(f"musterd log: {folder} is no data folder: there is neither node.toml nor wal in it", file=sys.stderr)
        return MISUSED
    try:
        inspector = open_inspector(folder)
        if inspector.in_use:
            print(f"note: {folder} is {_IN_USE}", file=sys.stderr)
        code = _verify(inspector, given) if given.command == "verify" else _dump(inspector, given)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader closed the pipe
        return SOUND
    except LogDamaged as error:
        print(f"musterd log: {error}", file=sys.stderr)
        return DAMAGED
    except OSError as error:
        print(f"musterd log: cannot read {error.filename or folder}: {error.strerror}", file=sys.stderr)
        return DAMAGED
    return code


def is_data_folder(folder: str) -> bool:
    """Return true if there is a data folder, whole or not."""
    names = ReadOnlyDisk().list(folder) if os.path.isdir(folder) else []
    return bool({"node.toml", "wal"}.intersection(names))


def open_inspector(folder: str) -> Inspector:
    """Return what reads the data folder, which may be in use."""
    disk = ReadOnlyDisk()
    return Inspector(disk, folder, _holes(Inspector(disk, folder)), in_use=disk.is_locked(f"{folder}/{LOCK_FILE}"))


def _holes(inspector: Inspector) -> Callable[[str], bool]:
    """Return a test for logs that may lack records because of cleaning: internal topics, and topics that are or were
    compacted. If their settings cannot be read, any log may."""
    compacted: set[str] = set()
    try:
        for batch in inspector.batches(TOPICS_LOG):
            compacted.update(
                str(entry["topic"])
                for entry in entries_of(TOPICS_LOG, batch)
                if "compact" in entry.get("configs", {}).get("cleanup.policy", "")
            )
    except (LogDamaged, OSError):
        return lambda _log: True
    return lambda log: log.startswith("__") or log.rpartition("-")[0] in compacted


def _given(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Names of logs may follow flags; argparse alone would not take those."""
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    if wrong := [word for word in rest if word.startswith("-") or given.command != "dump"]:
        parser.error(f"unrecognized arguments: {' '.join(wrong)}")
    if rest:
        given.logs += rest
    return given


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("musterd log", description="Read a data folder, in use or not; change nothing.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="verify|dump")
    verify = commands.add_parser("verify", help="check all files; exit code 1 if one is damaged")
    dump = commands.add_parser("dump", help="print the records of logs")
    for command in (verify, dump):
        command.add_argument("folder", metavar="DATA_FOLDER")
        command.add_argument("--json", action="store_true", help="print a JSON object for each line")
    dump.add_argument("logs", metavar="LOG", nargs="*", help="as __consumer_offsets-12, orders-0, or wal (all logs)")
    dump.add_argument("--values", action="store_true", help="keys and values too, as text (the first 4,096 bytes)")
    files_help = "what the logs' own files hold, where the checkpoint or the write-ahead log is damaged"
    dump.add_argument("--files-only", action="store_true", help=files_help)
    dump.add_argument("--from", dest="first", metavar="OFFSET", type=int, default=0, help="first offset to print (0)")
    dump.add_argument("--limit", metavar="N", type=int, default=None, help="print at most N records of each log (all)")
    return parser


# ------------------------------------------------------------------------------------------------------------ verify


def _verify(inspector: Inspector, given: argparse.Namespace) -> int:
    counts = dict.fromkeys(Severity, 0)
    for finding in inspector.verify():
        counts[finding.severity] += 1
        if given.json:
            _print_json({"weight": finding.severity.value, **_without_weight(finding)})
        else:
            print(f"{finding.severity.value}: {finding.sentence}")
    totals = inspector.totals
    read = {name: getattr(totals, name) for name in totals.__slots__}
    if given.json:
        _print_json({"summary": read | {weight.value: count for weight, count in counts.items()}})
    else:
        print(
            f"{totals.logs:,} logs, {totals.segments:,} segments, {totals.batches:,} batches, "
            f"{totals.records:,} records, {totals.bytes:,} bytes; "
            f"{totals.frames:,} frames written ahead, {totals.frame_bytes:,} bytes"
        )
        print(
            f"{counts[Severity.DAMAGE]} damaged, {counts[Severity.WARNING]} warnings, {counts[Severity.NOTE]} notes: "
            + ("DAMAGED. Keep a copy of the folder, and restore it" if counts[Severity.DAMAGE] else "sound")
        )
        if sentence := _next_start(totals, is_damaged=counts[Severity.DAMAGE] > 0, in_use=inspector.in_use):
            print(sentence)
    return DAMAGED if counts[Severity.DAMAGE] else SOUND


def _next_start(totals: ScanTotals, *, is_damaged: bool, in_use: bool) -> str:
    """Findings to expect after a crash; a clean stop leaves none."""
    if is_damaged:
        return "Without a backup: docs/operations.md says under that heading what each damage costs."
    if in_use or not totals.frames:
        return ""
    return (
        f"The folder is in order, as after a kill or a power cut: {totals.frames:,} batches wait in the write-ahead "
        "log, and the next start brings them into their logs by itself. There is nothing to do."
    )


def _without_weight(finding: Any) -> Entry:
    return {name: getattr(finding, name) for name in ("file", "position", "offset", "what")}


# -------------------------------------------------------------------------------------------------------------- dump


def _dump(inspector: Inspector, given: argparse.Namespace) -> int:
    """Dump the logs named. A log that is missing or unreadable does not prevent the others."""
    known = inspector.file_names() if given.files_only else inspector.names()
    wanted = given.logs or known
    is_whole = True
    for name in wanted:
        if (name != "wal" or given.files_only) and name not in known:
            _complain(f"there is no log {name} with records here{_like(name, known)}")
            is_whole = False
            continue
        if len(wanted) > 1 and not given.json:
            print(f"--- {name}")
        try:
            is_whole &= _dump_one(inspector, name, given)
        except BrokenPipeError:
            raise
        except OSError as error:
            _complain(f"cannot read {error.filename or name}: {error.strerror}")
            is_whole = False
    return SOUND if is_whole else DAMAGED


def _dump_one(inspector: Inspector, name: str, given: argparse.Namespace) -> bool:
    """Dump one log. Return true if nothing that was read is damaged."""
    is_sound = True
    limit = None if given.limit is None else max(given.limit, 0)
    for entry in islice(_entries(inspector, name, given), limit):
        is_sound = is_sound and entry["type"] != "damaged"
        if given.json:
            _print_json({"log": name, **entry})
        else:
            print(text_of(entry))
    return is_sound


def _like(name: str, known: list[str]) -> str:
    """Suggest the partitions of a topic if a topic's name was given."""
    partitions = [one for one in known if one.rpartition("-")[0] == name]
    near = partitions or get_close_matches(name, known, n=3)
    return f"; there is {', '.join(near[:3])}{', ...' if len(near) > 3 else ''}" if near else ""


def _complain(sentence: str) -> None:
    sys.stdout.flush()
    print(f"musterd log: {sentence}", file=sys.stderr)


def _entries(inspector: Inspector, name: str, given: argparse.Namespace) -> Iterator[Entry]:
    if name == "wal":
        yield from map(frame_entry, inspector.frames())
        return
    for batch in inspector.file_batches(name) if given.files_only else inspector.batches(name):
        if batch.header is not None and batch.next_offset <= given.first:
            continue
        for entry in entries_of(name, batch, with_values=given.values):
            if entry["offset"] >= given.first or entry["type"] == "damaged":
                yield entry


def _print_json(entry: Entry) -> None:
    print(json.dumps(entry, ensure_ascii=False))
