"""Options that set the target offsets of a reset, and the plan made from them."""

import csv
import re
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import typer

from diagnosis.offset_plan import PlannedOffset, Target, make_plan
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, committed_offsets, partitions_of
from muster.admin.ends import ends_of
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.cli.showing import warn
from protocol.words import counted

Key = tuple[str, int]
_COLUMNS: Final = 4
"""Columns of a line that begins with its group."""
_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def plan_offsets(
    cluster: ClusterClient, group_id: str, target: Target, topics: Iterable[str], *, all_topics: bool
) -> list[PlannedOffset]:
    """Plan the partitions of these topics (`orders`, `orders:0,3`), or all that the group has committed for. Raises
    NotFound if a topic does not exist. Prints a warning for each offset that becomes the start or end of its log."""
    committed = {(one.topic, one.partition): offset for one, offset in committed_offsets(cluster, group_id).items()}
    keys = _scope(cluster, list(topics), committed, target, all_topics=all_topics)
    there = partitions_of(cluster, {topic for topic, _partition in keys}) & {TopicPartition(*key) for key in keys}
    begins = {(one.topic, one.partition): end.offset for one, end in ends_of(cluster, there, EARLIEST).items()}
    ends = {(one.topic, one.partition): end.offset for one, end in ends_of(cluster, there, LATEST).items()}
    planned = make_plan(target, keys, committed, begins, ends)
    for one in planned:
        if (wanted := _wanted(target, one)) != one.offset:
            where = "beyond the end" if wanted > one.offset else "before the start"
            warn(f"{wanted} is {where} of {one.topic}-{one.partition}: its new offset is {one.offset}")
    return planned


def _wanted(target: Target, one: PlannedOffset) -> int:
    """Return the offset that the target asks for, inside the log or not."""
    if target.to_offset is not None:
        return target.to_offset
    if target.shift_by is not None:
        return one.previous_offset + target.shift_by
    return (target.offsets or {}).get((one.topic, one.partition), one.offset)


def check_all_planned(planned: Iterable[PlannedOffset], offsets: Iterable[Key], topics: Collection[str] = ()) -> None:
    """Raise NotFound if the plan lacks partitions that these offsets name: they do not exist. With the `topics` of
    `plan_offsets` only those of whole topics count."""
    named = {key for key in offsets if not topics or key[0] in topics}
    missing = sorted(named - {(one.topic, one.partition) for one in planned})
    if missing:
        raise NotFound(f"not here: {counted(len(missing), 'partition')}, as {missing[0][0]}-{missing[0][1]}")


def _scope(
    cluster: ClusterClient, topics: list[str], committed: Mapping[Key, int], target: Target, *, all_topics: bool
) -> list[Key]:
    if not topics:
        named = {topic for topic, _partition in committed} | {topic for topic, _partition in target.offsets or {}}
        if not all_topics and target.offsets is None:
            raise typer.BadParameter("say which, as --topic orders or --topic orders:0,3; or --all-topics")
        existing = {(one.topic, one.partition) for one in partitions_of(cluster, named)}
        return sorted(existing & (committed.keys() | (target.offsets or {}).keys()))
    keys: list[Key] = []
    for text in topics:
        topic, colon, numbers = text.partition(":")
        existing = {(one.topic, one.partition) for one in partitions_of(cluster, {topic})}
        wanted = existing if not colon else {(topic, _number(part, text)) for part in numbers.split(",")}
        if target.delete:
            existing |= {key for key in committed if key[0] == topic}
            wanted = wanted if colon else existing
        missing = sorted(wanted - existing)
        if missing or not existing:
            what = f"{topic}-{missing[0][1]}" if missing else repr(topic)
            raise NotFound(f"there is no {'partition' if missing else 'topic'} {what}: see `muster topics list`")
        keys += sorted(wanted)
    return keys


def _number(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        raise typer.BadParameter(f"{whole[:80]!r} names no partitions: say TOPIC or TOPIC:0,3", param_hint="--topic")
    return int(text)


def at_time(cluster: ClusterClient, time_ms: int, topics: Iterable[str]) -> dict[Key, int]:
    """Return the first offset of each partition at or after the time, -1 if no record is so late."""
    wanted = partitions_of(cluster, {topic.partition(":")[0] for topic in topics})
    return {(one.topic, one.partition): end.offset for one, end in ends_of(cluster, wanted, time_ms).items()}


def time_of(text: str) -> int:
    """Parse a wall time, `2026-03-01T14:05:09.123`, in UTC unless it has a zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text[:40]!r} is no time: say 2026-03-01T14:05:09.000", param_hint="--to-datetime"
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_of(text: str) -> int:
    """Parse a duration, `P1DT2H30M`, into milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or text in ("P", "PT"):
        raise typer.BadParameter(f"{text[:40]!r} is no duration: say P1DT2H30M", param_hint="--by-duration")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return int(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds() * 1000)
    except OverflowError:
        raise typer.BadParameter(f"{text[:40]!r} is too long", param_hint="--by-duration") from None


def offsets_of_file(path: Path) -> dict[Key, int]:
    """Read Kafka's format: a line `topic,partition,offset` for each partition. Raises Complaint for any other."""
    return groups_of_file(path, "")[""]


def groups_of_file(path: Path, group_id: str | None, *, may_name_groups: bool = False) -> dict[str, dict[Key, int]]:
    """Read Kafka's format for one group or, with `group_id` None, for several: each line then begins with its group.
    With `may_name_groups` the first line tells. Raises Complaint for any other."""
    try:
        with path.open(newline="") as lines:
            rows = list(filter(None, csv.reader(lines)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Complaint(f"{path} cannot be read: {error}") from None
    has_groups = group_id is None or (may_name_groups and bool(rows) and len(rows[0]) == _COLUMNS)
    form = "GROUP,TOPIC,PARTITION,OFFSET" if has_groups else "TOPIC,PARTITION,OFFSET"
    found: dict[str, dict[Key, int]] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != form.count(",") + 1 or not (_is_number(row[-2], 2**31 - 1) and _is_number(row[-1], 2**63 - 1)):
            raise Complaint(f"{path}: line {number} is not {form}: {','.join(row)[:80]!r}")
        group = row[0] if has_groups else group_id or ""
        found.setdefault(group, {})[row[-3], int(row[-2])] = int(row[-1])
    if not found:
        raise Complaint(f"{path} names no partition: a line is {form}")
    return found


def _is_number(text: str, most: int) -> bool:
    """Return true for the digits of a number up to `most`; `int` takes other signs, and fails at some digits."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most


def now_ms() -> int:
    """Return the wall time."""
    return int(time.time() * 1000)


def plan_of_file(plan: Iterable[PlannedOffset]) -> str:
    """Format a plan in Kafka's format, which `--from-file` reads."""
    return "".join(f"{one.topic},{one.partition},{one.offset}\n" for one in plan)
