"""The commands of Apache Kafka's bin folder, run by their classes: what they print is what an operator would see."""

import csv
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from interop.program import Options, answer, check, until

_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", "lib/*")
_TOOLS = "org.apache.kafka.tools"
_CONSOLE = f"{_TOOLS}.consumer.ConsoleConsumer"
_GROUPS = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"


class Said(NamedTuple):
    code: int
    out: str

    def rows(self, first: str) -> list[dict[str, str]]:
        """The lines of a table whose heading begins with this word, by column."""
        lines = [line.split() for line in self.out.splitlines() if line.strip()]
        heads = [number for number, line in enumerate(lines) if line[0] == first]
        check(heads, f"no heading {first} in: {self.out}")
        head = lines[heads[0]]
        return [dict(zip(head, line, strict=False)) for line in lines[heads[0] + 1 :] if len(line) >= len(head) - 1]


def run(options: Options, tool: str, *arguments: str, given: str = "", fails: bool = False) -> Said:
    """Runs one command to its end. A line that says "Error" counts as a failure, as some of them exit with 0."""
    command = [*_JAVA, tool, "--bootstrap-server", options.bootstrap, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
    said = Said(done.returncode, done.stdout + done.stderr)
    failed = bool(done.returncode) or "Error" in said.out
    check(failed == fails, f"{tool.rpartition('.')[2]} {' '.join(arguments)}: {said.code}, {said.out[-800:]}")
    return said


def groups(options: Options, *arguments: str, fails: bool = False) -> Said:
    return run(options, _GROUPS, *arguments, fails=fails)


def create(options: Options, partitions: int) -> None:
    run(options, f"{_TOOLS}.TopicCommand", "--create", "--topic", options.topic, "--partitions", str(partitions))


def produce(options: Options, lines: list[str], *extra: str) -> None:
    arguments = ("--topic", options.topic, *extra)
    run(options, f"{_TOOLS}.ConsoleProducer", *arguments, given="".join(f"{line}\n" for line in lines))


def produce_consume(options: Options) -> str:
    create(options, 3)
    compressions = ("none", "gzip", "snappy", "lz4", "zstd")
    for compression in compressions:
        lines = [f"key-{number}:{compression}-{number}" for number in range(40)]
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        produce(options, lines, "--compression-codec", compression, *keyed)
    total = 40 * len(compressions)
    read = ("--topic", options.topic, "--group", options.group, "--from-beginning", "--timeout-ms", "15000")
    said = run(options, f"{_TOOLS}.consumer.ConsoleConsumer", *read, "--max-messages", str(total))
    found = sorted(line for line in said.out.splitlines() if "-" in line and " " not in line)
    expected = sorted(f"{compression}-{number}" for compression in compressions for number in range(40))
    check(found == expected, f"{len(found)} lines, not the {total} that were sent")
    return f"console producer and consumer: {total} keyed records ({', '.join(compressions)})"


def offsets_by_time(options: Options) -> str:
    create(options, 1)
    produce(options, ["a", "b", "c"])
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    produce(options, ["d", "e"])
    seen = []
    for at, expected in (("earliest", "0"), ("latest", "5"), ("max-timestamp", "4"), (str(between), "3")):
        said = run(options, f"{_TOOLS}.GetOffsetShell", "--topic", options.topic, "--time", at)
        found = next(line for line in said.out.splitlines() if line.startswith(f"{options.topic}:")).rpartition(":")[2]
        check(found == expected, f"{at}: {found}, not {expected}")
        seen.append(f"{'between' if at.isdigit() else at} {found}")
    return f"GetOffsetShell: {', '.join(seen)}"


def idempotent(options: Options) -> str:
    create(options, 3)
    count = 20_000
    load = ("--topic", options.topic, "--num-records", str(count), "--record-size", "100", "--throughput", "-1")
    said = run(options, f"{_TOOLS}.ProducerPerformance", *load, "--command-property", "enable.idempotence=true")
    check(f"{count} records sent" in said.out, said.out)
    ends = run(options, f"{_TOOLS}.GetOffsetShell", "--topic", options.topic).out.splitlines()
    total = sum(int(line.rpartition(":")[2]) for line in ends if line.startswith(f"{options.topic}:"))
    check(total == count, f"{total} records are there, {count} were sent")
    read = ("--topic", options.topic, "--num-records", str(count), "--group", options.group)
    run(options, f"{_TOOLS}.ConsumerPerformance", *read)
    return f"ProducerPerformance: {count} records, each once; ConsumerPerformance read them"


def admin_topics(options: Options) -> str:
    tool = f"{_TOOLS}.TopicCommand"
    create(options, 3)
    check(options.topic in run(options, tool, "--list").out.split(), "not listed")
    described = run(options, tool, "--describe", "--topic", options.topic).out
    check("PartitionCount: 3" in described and described.count("Leader: ") == 3, described)
    run(options, tool, "--create", "--topic", options.topic, "--partitions", "3", fails=True)
    run(options, tool, "--create", "--topic", options.topic, "--partitions", "3", "--if-not-exists")
    run(options, tool, "--alter", "--topic", options.topic, "--partitions", "5")
    check("PartitionCount: 5" in run(options, tool, "--describe", "--topic", options.topic).out, "not five partitions")
    run(options, tool, "--delete", "--topic", options.topic)
    until(lambda: options.topic not in run(options, tool, "--list").out.split(), "deleted")
    versions = run(options, f"{_TOOLS}.BrokerApiVersionsCommand").out
    check("JoinGroup(11)" in versions, versions)
    return "TopicCommand: created, described, refused twice, grown to 5, deleted; BrokerApiVersionsCommand"


def configs(options: Options) -> str:
    create(options, 1)
    about = ("--entity-type", "topics", "--entity-name", options.topic)
    tool = "kafka.admin.ConfigCommand"
    run(options, tool, *about, "--alter", "--add-config", "retention.ms=123456789,cleanup.policy=compact")
    described = run(options, tool, *about, "--describe").out
    check("retention.ms=123456789" in described and "cleanup.policy=compact" in described, described)
    run(options, tool, *about, "--alter", "--delete-config", "retention.ms")
    described = run(options, tool, *about, "--describe").out
    check("retention.ms=123456789" not in described and "cleanup.policy=compact" in described, described)
    everything = run(options, tool, *about, "--describe", "--all").out
    check("retention.ms=" in everything, everything)
    run(options, tool, *about, "--alter", "--add-config", "no.such.key=1", fails=True)
    return "ConfigCommand: two keys set, one deleted, all described, an unknown one refused"


def admin_groups(options: Options) -> str:
    create(options, 2)
    produce(options, [str(number) for number in range(20)])
    with _reading(options):
        about = ("--group", options.group)
        until(lambda: options.group in groups(options, "--list").out.split(), "listed", 30)
        until(lambda: _state(options) == "Stable", "Stable", 30)
        listed = groups(options, "--list", "--state").rows("GROUP")
        check(
            {"GROUP": options.group, "STATE": "Stable"} in [_only(row, "GROUP", "STATE") for row in listed], str(listed)
        )
        check(options.group in run(options, f"{_TOOLS}.GroupsCommand", "--list").out, "GroupsCommand does not list it")
        check(options.group in groups(options, "--list", "--type", "classic").out, "not listed as a classic group")
        offsets = groups(options, "--describe", *about, "--offsets", "--verbose").rows("GROUP")
        check({row["PARTITION"] for row in offsets} == {"0", "1"}, str(offsets))
        members = groups(options, "--describe", *about, "--members", "--verbose").rows("GROUP")
        check(len(members) == 1 and members[0]["#PARTITIONS"] == "2", str(members))
        until(lambda: _lag(options) == 0, "a lag of 0", 30)
        groups(options, "--reset-offsets", *about, "--all-topics", "--to-earliest", "--execute", fails=True)
        groups(options, "--delete", *about, fails=True)
    until(lambda: _state(options) == "Empty", "Empty", 30)
    forms = _resets(options)
    groups(options, "--delete-offsets", *about, "--topic", f"{options.topic}:0")
    left = groups(options, "--describe", *about).rows("GROUP")
    check([row["PARTITION"] for row in left] == ["1"], f"after one was deleted: {left}")
    groups(options, "--delete", *about)
    check(options.group not in groups(options, "--list").out.split(), "listed after it was deleted")
    return f"ConsumerGroupCommand: list, describe in all forms, {forms} forms of reset-offsets, delete-offsets, delete"


def offsets_topic(options: Options) -> str:
    """`__consumer_offsets` on the console, decoded by Kafka's own formatter, with the commits of a group in it."""
    create(options, 1)
    produce(options, [str(number) for number in range(20)])
    read = ("--topic", options.topic, "--group", options.group, "--from-beginning", "--max-messages", "20")
    run(options, _CONSOLE, *read)
    formatter = ("--formatter", f"{_TOOLS}.consumer.OffsetsMessageFormatter")
    follow = ("--topic", "__consumer_offsets", *formatter, "--from-beginning", "--timeout-ms", "6000")
    lines = run(options, _CONSOLE, *follow).out.splitlines()
    own = [one for line in lines if line.startswith("{") for one in _objects(line)]
    offsets = [
        one["value"]["data"]["offset"]
        for one in own
        if (one["key"]["data"].get("group"), one["key"]["data"].get("topic")) == (options.group, options.topic)
        and one["value"] is not None
    ]
    check(offsets and offsets[-1] == 20, f"{offsets} in {lines[-5:]}")
    return f"ConsoleConsumer with OffsetsMessageFormatter: {len(offsets)} commits of the group, the last 20"


def _objects(line: str) -> Iterator[Any]:
    """The formatter ends no line."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(line) and line[at] == "{":
        found, at = decoder.raw_decode(line, at)
        yield found


def offsets_log(options: Options) -> str:
    """Read every segment and index of the offsets log that a musterd left after a clean stop."""
    folder = next(path.parent for path in sorted(Path(options.folder).glob("__consumer_offsets-*/*.log")))
    dump = f"{_TOOLS}.DumpLogSegments"
    offsets: list[int] = []
    segments = sorted(folder.glob("*.log"))
    for segment in segments:
        out = look(dump, "--offsets-decoder", "--files", str(segment))
        check("isvalid: true" in out and "isvalid: false" not in out and "Found" not in out, out[-800:])
        wanted = f'"group":"{options.group}","topic":"{options.topic}"'
        told = [line for line in out.splitlines() if wanted in line and '"offset":' in line]
        offsets += [int(line.partition('"offset":')[2].partition(",")[0]) for line in told]
    check(offsets and offsets == sorted(offsets) and offsets[-1] == 1_500, f"{len(offsets)} commits, {offsets[-3:]}")
    indexes = sorted(folder.glob("*.index"))  # a .timeindex is the server's own
    check(indexes, "no index")
    for index in indexes:
        for how in ("--index-sanity-check", "--verify-index-only"):
            out = look(dump, how, "--files", str(index))
            check("passed sanity check" in out or how == "--verify-index-only", out[-800:])
            check("Mismatches" not in out and "Found" not in out and "Exception" not in out, out[-800:])
    return f"DumpLogSegments: {len(offsets)} commits in {len(segments)} segments decoded, {len(indexes)} indexes sound"


def look(tool: str, *arguments: str) -> str:
    """A command that asks no server."""
    done = subprocess.run([*_JAVA, tool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    check(not done.returncode, f"{tool.rpartition('.')[2]} {' '.join(arguments)}: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout + done.stderr


def _resets(options: Options) -> int:
    """Every form of reset-offsets over both partitions, of which the first has been given all of 20 records or some."""
    ends = _column(groups(options, "--describe", "--group", options.group), "LOG-END-OFFSET")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    full = next(partition for partition, end in ends.items() if end)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.csv"
        with plan.open("w", newline="") as file:
            csv.writer(file).writerows([options.topic, partition, 0] for partition in ends)
        forms: list[tuple[tuple[str, ...], dict[str, int]]] = [
            (("--to-earliest",), dict.fromkeys(ends, 0)),
            (("--to-latest",), ends),
            (("--shift-by", "-1"), {partition: max(end - 1, 0) for partition, end in ends.items()}),
            (("--to-offset", "1"), {partition: min(end, 1) for partition, end in ends.items()}),
            (("--to-datetime", "2020-01-01T00:00:00.000"), dict.fromkeys(ends, 0)),
            (("--to-datetime", later.strftime("%Y-%m-%dT%H:%M:%S.000Z")), ends),
            (("--by-duration", "PT1H"), dict.fromkeys(ends, 0)),
            (("--to-current",), dict.fromkeys(ends, 0)),
            (("--to-latest",), ends),
            (("--from-file", str(plan)), dict.fromkeys(ends, 0)),
        ]
        for form, expected in forms:
            scope = () if form[0] == "--from-file" else ("--topic", options.topic)
            groups(options, "--reset-offsets", "--group", options.group, *scope, *form, "--execute")
            found = _column(groups(options, "--describe", "--group", options.group), "CURRENT-OFFSET")
            check(found == expected, f"{' '.join(form)}: {found}, not {expected}")
    dry = groups(
        options, "--reset-offsets", "--group", options.group, "--topic", options.topic, "--to-latest", "--dry-run"
    )
    check(full in {row["PARTITION"] for row in dry.rows("GROUP")}, dry.out)
    check(
        not any(_column(groups(options, "--describe", "--group", options.group), "CURRENT-OFFSET").values()),
        "a dry run",
    )
    return len({form[0] for form, _ in forms})


def _state(options: Options) -> str:
    """The coordinator's column has two words, so the state is not where its heading says."""
    rows = groups(options, "--describe", "--group", options.group, "--state").rows("GROUP")
    return next((word for word in ("Stable", "Empty") if rows and word in rows[0].values()), "")


def _lag(options: Options) -> int:
    rows = groups(options, "--describe", "--group", options.group).rows("GROUP")
    return sum(int(row["LAG"]) if row["LAG"].isdigit() else 1 for row in rows) if len(rows) == 2 else -1


def _column(said: Said, name: str) -> dict[str, int]:
    """Partition -> number; what is not there ("-") counts as -1."""
    return {row["PARTITION"]: int(row[name]) if row[name].isdigit() else -1 for row in said.rows("GROUP")}


def _only(row: dict[str, str], *names: str) -> dict[str, str]:
    return {name: row[name] for name in names if name in row}


@contextmanager
def _reading(options: Options) -> Iterator[None]:
    """A console consumer in the group, which commits every 500 ms and leaves when it is told to end."""
    command = [
        *_JAVA,
        f"{_TOOLS}.consumer.ConsoleConsumer",
        "--bootstrap-server",
        options.bootstrap,
        "--topic",
        options.topic,
    ]
    command += ["--group", options.group, "--from-beginning"]
    command += ["--command-property", "auto.commit.interval.ms=500"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        yield
        process.terminate()
        process.wait(20)
    finally:
        process.kill()
        process.wait(20)


STORIES = {
    "produce_consume": produce_consume,
    "offsets_by_time": offsets_by_time,
    "idempotent": idempotent,
    "admin_topics": admin_topics,
    "admin_groups": admin_groups,
    "configs": configs,
    "offsets_topic": offsets_topic,
    "offsets_log": offsets_log,
}

if __name__ == "__main__":
    sys.exit(answer(STORIES))
