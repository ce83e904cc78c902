"""Runs both tools against one musterd, and prints what they said differently."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench import builds
from interop.consumer_groups_tool.groups import Groups
from interop.consumer_groups_tool.invocations import ALL, FILE, OWN, Invocation
from interop.consumer_groups_tool.output import Comparison, Said, reason_of
from interop.processes import environment
from interop.server import Musterd

_CLASS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_MAIN: Final = "from muster.cli.operating.kafka_groups import main; main()"
_KAFKA, _MUSTER = "k", "m"
"""Last letters of the groups that each tool has for itself."""
_LOGGING: Final = """\
<Configuration status="WARN">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""
"""Logging like that of config/tools-log4j2.yaml, which the script names."""
_SAME: Final = "same"
_SAME_BUT_CODE: Final = "same but for exit code 1"
_DIFFERENT: Final = "DIFFERENT"
_LIMIT_S: Final = 90.0
_LATE_S: Final = 8.0
"""Time beyond `--timeout` in which a tool starts and ends, on a busy machine."""


class Choice(msgspec.Struct, frozen=True):
    """Selection of invocations: those that contain one of the texts; all by default."""

    only: tuple[str, ...] = ()

    def invocations(self) -> list[Invocation]:
        """Return the chosen ones, in their order."""
        return [one for one in ALL if not self.only or any(text in one.text for text in self.only)]


def run(choice: Choice, work: Path) -> list[str]:
    """Print a line for each invocation, and the lines that differ; return a line for each difference that is not
    meant. Without Java there is nothing to compare with, which fails nothing."""
    try:
        java, jars = builds.java(), builds.kafka_jars(may_fetch=True)
    except builds.NotHere as why:
        print(f"Apache Kafka's kafka-consumer-groups: not here: {why}", flush=True)
        return []
    work = work.resolve() / "consumer-groups-tool"
    work.mkdir(parents=True, exist_ok=True)
    logging = work / "log4j2.xml"
    logging.write_text(_LOGGING)
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}"]
    tools = {
        _KAFKA: [java, *options, "-cp", f"{jars}{os.sep}*", _CLASS],
        _MUSTER: [sys.executable, "-c", _MAIN],
    }
    with ExitStack() as stack:
        server = Musterd(work)
        stack.callback(server.end)
        groups = Groups(server.kafka, stack)
        groups.make_all()
        comparisons = [
            _said(_compared(number, one, tools, server, groups, work))
            for number, one in enumerate(choice.invocations(), 1)
        ]
    return judged(comparisons)


def judged(comparisons: Sequence[Comparison]) -> list[str]:
    """Print the counts; return a line for each invocation with a difference that is not meant."""
    counts = Counter(_verdict(one).partition(":")[0] for one in comparisons)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print(f"kafka-consumer-groups: {len(comparisons)} invocations: {told}", flush=True)
    wrong = [one for one in comparisons if one.differences and not reason_of(one)]
    return [f"muster-consumer-groups {one.invocation.text}: {one.differences[0]}" for one in wrong]


def _verdict(comparison: Comparison) -> str:
    if not comparison.differences:
        return _SAME
    if comparison.is_same_but_for_the_code:
        return _SAME_BUT_CODE
    reason = reason_of(comparison)
    return f"meant: {reason}" if reason else _DIFFERENT


def _said(comparison: Comparison) -> Comparison:
    verdict = _verdict(comparison)
    print(f"{verdict:<24} {comparison.invocation.text}", flush=True)
    for line in comparison.differences if verdict == _DIFFERENT else ():
        print(f"    {line}", flush=True)
    return comparison


def _compared(
    number: int, invocation: Invocation, tools: dict[str, list[str]], server: Musterd, groups: Groups, work: Path
) -> Comparison:
    said = {}
    for letter, command in tools.items():
        own, file = f"own-{number:03}-{letter}", work / f"offsets-{number:03}.csv"
        file.write_text(invocation.lines.replace(OWN, own))
        if has_own := OWN in invocation.words:
            groups.commit(own)
        words = [{OWN: own, FILE: str(file)}.get(word, word) for word in invocation.words]
        where = ["--bootstrap-server", server.kafka] if invocation.has_server else []
        with _frozen(server, is_so=invocation.is_frozen):
            one = _ended([*command, *where, *words])
        left = groups.left_of(own) if has_own else ""
        if invocation.is_frozen:
            limit_s = int(words[-1]) / 1000 + _LATE_S
            left = "ended in time" if one.seconds < limit_s else f"ended after {one.seconds:.1f} s"
        said[letter] = msgspec.structs.replace(
            one, out=one.out.replace(own, OWN), err=one.err.replace(own, OWN), left=left
        )
    return Comparison(invocation, said[_KAFKA], said[_MUSTER])


@contextmanager
def _frozen(server: Musterd, *, is_so: bool) -> Iterator[None]:
    """Have musterd answer nothing meanwhile."""
    if not is_so:
        yield
        return
    server.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


def _ended(command: Sequence[str]) -> Said:
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Said("", f"it did not end within {_LIMIT_S:g} s", -1, _LIMIT_S)
    return Said(done.stdout, done.stderr, done.returncode, time.monotonic() - began)
