"""`muster produce TOPIC` and `muster consume TOPIC`."""

import base64
import enum
import json
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import IO, Annotated, Any

import typer

from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint
from muster.blocking import Consumer, Producer, RangeReader
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.blocking.sent import Sent
from muster.cli.asking import AsJson, Bootstrap, Servers, reaching_topics, servers
from muster.cli.showing import show_json
from muster.cli.stopping import stop, terminated_as_interrupted
from muster.core.fetching.records import ConsumerRecord
from muster.errors import CommitRefused, CorruptRecords, Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.words import counted

_READ_BYTES = 1024 * 1024
_LOOK_AGAIN_S = 0.25
_POLL_S = 0.5
_MOST_A_POLL = 500
_COMMIT_S = 60.0
_COMMIT_TRY_S = 2.0


class GroupProtocolChoice(enum.StrEnum):
    """Values of `--group-protocol`, those of the client's `group_protocol`."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    AUTO = "auto"


Records = Generator[list[ConsumerRecord], None, None]
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


def produce(
    ctx: typer.Context,
    topic: Topic,
    file: Annotated[
        typer.FileBinaryRead | None, typer.Option(help="Read lines from here instead of standard input.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text before its first occurrence is the key.")
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Append each line to a topic as a record.

    Ctrl-C and SIGTERM wait a few seconds for unacknowledged records, and report how many were given up.
    """
    if key_separator == "":
        raise typer.BadParameter("name one character at least", param_hint="--key-separator")
    counts: Counter[int] = Counter()
    with terminated_as_interrupted(), reaching_topics(ctx, bootstrap) as cluster:
        cluster.partition_count(topic)  # fails for a missing topic before anything is typed
        where = servers(ctx, bootstrap)
        with Producer(
            where.bootstrap, client_id="muster-cli", security=where.security, broker_security=where.broker_security
        ) as producer:
            _append_all(producer, topic, _lines(file or sys.stdin.buffer), key_separator, counts)
    if as_json:
        partitions = [{"partition": partition, "records": count} for partition, count in sorted(counts.items())]
        show_json({"topic": topic, "records": sum(counts.values()), "partitions": partitions})
    else:
        print(f"Appended {counted(sum(counts.values()), 'record')} to {topic}.")


def _append_all(
    producer: Producer, topic: str, source: Iterator[list[bytes]], separator: str | None, counts: Counter[int]
) -> None:
    sent: list[Sent] = []
    lines: list[bytes] = []
    try:
        for lines in source:
            for line in lines:
                key, value = _split(line, separator, sum(counts.values()) + 1)
                sent.append(producer.send(topic, value, key))
                counts[sent[-1].partition] += 1
            producer.flush()
            lines.clear()
            sent.clear()
    except KeyboardInterrupt:
        stop(producer, topic, sent, max(len(lines) - len(sent), 0))
        raise


def _lines(source: Any) -> Iterator[list[bytes]]:
    """Yield lines as soon as they arrive, so that a typed line is a record before the next one. The last line need not
    end with a newline.
    """
    rest = b""
    while data := source.read1(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _split(line: bytes, separator: str | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    if not found:
        raise Complaint(f"line {number} has no {separator!r} in it")
    return key, value


def consume(
    ctx: typer.Context,
    topic: Topic,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Read as a member of this group, and commit to it.")
    ] = None,
    group_protocol: Annotated[
        GroupProtocolChoice | None,
        typer.Option(
            help="With --group: classic (default): members assign; consumer: the coordinator; auto: that if it can."
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Without a group: begin with the oldest record.")
    ] = False,
    most: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="End after this number of records.")
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="End after this time without a record.")
    ] = None,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Key, tab, value.")] = False,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """Print the records of a topic as they arrive, one a line.

    A partition that cannot be read is named on standard error, and the others are read on; exit code 1 at the end.
    """
    if group is not None and from_beginning:
        why = "is for reading without a group: a group goes on from its offsets, and begins with the oldest record"
        raise typer.BadParameter(why, param_hint="--from-beginning")
    if group is None and group_protocol is not None:
        raise typer.BadParameter("is for members of a group: name it by --group", param_hint="--group-protocol")
    out = sys.stdout.buffer
    troubles = _Troubles()
    with reaching_topics(ctx, bootstrap) as cluster:
        cluster.partition_count(topic)  # a member would wait for a missing topic for ever
        if group is None:
            found = _few(_read(cluster, topic, from_beginning, timeout_s, troubles), most)
        else:
            protocol = group_protocol or GroupProtocolChoice.CLASSIC
            found = _read_as_member(servers(ctx, bootstrap), topic, group, protocol, timeout_s, most, troubles)
        with closing(found):
            for records in found:
                for record in records:
                    _print(out, record, with_keys, as_json)
                out.flush()
    if troubles.now:
        raise typer.Exit(1)


def _few(source: Records, left: int | None) -> Records:
    for records in source:
        yield records[:left]
        if left is not None:
            left -= len(records)
            if left <= 0:
                return


class _Troubles:
    """The partitions that cannot be read: each is reported once, and the others are read further."""

    def __init__(self) -> None:
        self.now: dict[TopicPartition, str] = {}
        self._named: set[TopicPartition] = set()

    def note(self, one: TopicPartition, sentence: str) -> None:
        self.now[one] = sentence
        if one not in self._named:
            self._named.add(one)
            print(f"muster: {sentence}", file=sys.stderr, flush=True)

    def look(self, consumer: Consumer) -> None:
        found = consumer.troubles()
        for one in tuple(self.now):
            if one not in found:
                self.is_over(one)
        for one, (offset, code) in found.items():
            self.note(one, _trouble(one, offset, code))

    def is_over(self, one: TopicPartition) -> None:
        self.now.pop(one, None)


def _trouble(one: TopicPartition, offset: int, code: ErrorCode) -> str:
    told = "the daemon cannot read its file; its log says where"
    return f"{one} at offset {offset}: {code.name}" + (f": {told}" if code == ErrorCode.KAFKA_STORAGE_ERROR else "")


def _read(
    cluster: ClusterClient, topic: str, from_beginning: bool, timeout_s: float | None, troubles: _Troubles
) -> Records:
    """Read all partitions, without a group."""
    partitions = [TopicPartition(topic, number) for number in range(cluster.partition_count(topic))]
    positions = dict(cluster.offsets(partitions, EARLIEST if from_beginning else LATEST))
    heard_s = time.monotonic()
    while True:
        ends = cluster.offsets(partitions, LATEST)
        for one in partitions:
            end = max(positions[one], ends[one])
            found = RangeReader("", *one, positions[one], end, cluster=cluster, waits_for_disk=False).records()
            for records in _readable(one, found, positions, troubles):
                heard_s = time.monotonic()
                yield records
            if one not in troubles.now:
                positions[one] = end
        if timeout_s is not None and time.monotonic() - heard_s >= timeout_s:
            return
        time.sleep(_LOOK_AGAIN_S)


def _readable(
    one: TopicPartition, found: Iterator[Any], positions: dict[TopicPartition, int], troubles: _Troubles
) -> Records:
    """Yield all records that were fetched, or those before the first that cannot be read."""
    records: list[ConsumerRecord] = []
    trouble = ""
    try:
        for record in found:
            records.append(_named(one, record))
            positions[one] = record.offset + 1
            if len(records) == _MOST_A_POLL:
                yield records
                records = []
    except CorruptRecords as corrupt:
        trouble = str(corrupt)
    except Refused as refusal:
        if refusal.error_code != ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        trouble = _trouble(one, positions[one], refusal.error_code)
    if trouble:
        troubles.note(one, trouble)
    else:
        troubles.is_over(one)
    if records:
        yield records


def _named(one: TopicPartition, record: Any) -> ConsumerRecord:
    return ConsumerRecord(
        one.topic, one.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
    )


def _read_as_member(
    where: Servers,
    topic: str,
    group: str,
    group_protocol: GroupProtocolChoice,
    timeout_s: float | None,
    most: int | None,
    troubles: _Troubles,
) -> Records:
    """Read the partitions that the group assigns to this member. A list of records is committed after it was processed:
    before the next one, and at the end.
    """
    consumer = Consumer(
        where.bootstrap,
        group,
        # A user wants to see all existing records, so a group without offsets begins at the start.
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=min(_MOST_A_POLL, most or _MOST_A_POLL),
        client_id="muster-cli",
        group_protocol=group_protocol.value,
        security=where.security,
        broker_security=where.broker_security,
    )
    with consumer:
        consumer.subscribe([topic])
        watch = _DaemonWatch(consumer)
        heard_s = time.monotonic()
        while timeout_s is None or time.monotonic() - heard_s < timeout_s:
            records = consumer.poll(_POLL_S)[:most]
            watch.look()
            troubles.look(consumer)
            if records:
                heard_s = time.monotonic()
                yield records
                _commit(consumer, records, watch)
                if most is not None:
                    most -= len(records)
                    if most <= 0:
                        return


class _DaemonWatch:
    """Prints a line when the daemon is lost and when it returns, since silence would look like a topic without new
    records."""

    def __init__(self, consumer: Consumer) -> None:
        self._driver = consumer.driver
        self._trouble = ""

    def look(self) -> bool:
        """Return true if the daemon can be reached."""
        before, self._trouble = self._trouble, self._driver.trouble
        if self._trouble and not before:
            print(f"muster: {self._trouble} Trying again until it answers.", file=sys.stderr, flush=True)
        elif before and not self._trouble:
            print("muster: connected again.", file=sys.stderr, flush=True)
        return not self._trouble


def _commit(consumer: Consumer, records: list[ConsumerRecord], watch: _DaemonWatch) -> None:
    """Commit; wait while the daemon cannot be reached, and `_COMMIT_S` for one that can."""
    offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
    deadline_s = time.monotonic() + _COMMIT_S
    while True:
        try:
            consumer.commit(offsets, _COMMIT_TRY_S)
        except CommitRefused:
            return  # the partitions were reassigned: their new owner prints these records again
        except RequestTimedOut:
            if watch.look() and time.monotonic() >= deadline_s:
                raise
        else:
            return


def _print(out: IO[bytes], record: ConsumerRecord, with_keys: bool, as_json: bool) -> None:
    if as_json:
        out.write(json.dumps(_document(record)).encode() + b"\n")
    elif with_keys:
        out.write((record.key or b"") + b"\t" + (record.value or b"") + b"\n")
    else:
        out.write((record.value or b"") + b"\n")


def _document(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
    }


def _text(data: bytes | None) -> Any:
    """Return UTF-8 bytes as text, other bytes as `{"base64": ...}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
