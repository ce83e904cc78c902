"""kcat as the harness drives it: its output, said again in the harness's words."""

import argparse
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

_REBALANCED = re.compile(r"^% Group .*? rebalanced.*?(incremental assign|incremental revoke|assigned|revoked)(.*)$")
_TELLING = threading.Lock()
_PARTITION = re.compile(r"\[(\d+)\]")


def main() -> int:
    options = _options()
    if options.verb == "produce":
        return _produce(options)
    if options.verb == "member":
        return _Member(options).run()
    try:
        _tell({"ok": True, "detail": _STORIES[options.verb](options)})
    except (AssertionError, subprocess.CalledProcessError) as error:
        _tell({"ok": False, "detail": str(error)})
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("produce", "member", *_STORIES))
    for name in ("bootstrap", "topic", "group", "assignor", "instance"):
        parser.add_argument(f"--{name}")
    for name in ("count", "partitions", "limit", "session-timeout-ms"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--idempotent", action="store_true")
    return parser.parse_args()


def _produce(options: argparse.Namespace) -> int:
    """One kcat a partition: it sends all its lines to one."""
    for partition in range(options.partitions):
        lines = "".join(f"{number}\n" for number in range(partition, options.count, options.partitions))
        command = ["kcat", "-P", "-b", options.bootstrap, "-t", options.topic, "-p", str(partition)]
        command += [
            "-z",
            options.compression,
            "-X",
            "acks=all",
            "-X",
            f"enable.idempotence={str(options.idempotent).lower()}",
        ]
        subprocess.run(command, input=lines, text=True, check=True, timeout=30)
    return 0


class _Member:
    """A `kcat -G`: what it prints of rebalances and records, as events."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._limit: int | None = options.limit
        self._owned: set[int] = set()
        settings = {
            "partition.assignment.strategy": options.assignor,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": 1000,
            "auto.offset.reset": "earliest",
        }
        if options.instance:
            settings["group.instance.id"] = options.instance
        command = ["kcat", "-b", options.bootstrap, "-G", options.group]
        for key, value in settings.items():
            command += ["-X", f"{key}={value}"]
        if self._limit is None:
            command += ["-X", "enable.auto.commit=false"]
        else:
            command += ["-c", str(self._limit)]  # at the end it stores and commits what it handed out, and leaves
        command += ["-u", "-f", "%p %o %s\\n", options.topic]
        self._kcat = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self) -> int:
        assert self._kcat.stdout is not None and self._kcat.stderr is not None
        rebalances = threading.Thread(target=self._rebalances, args=(self._kcat.stderr,), daemon=True)
        rebalances.start()
        threading.Thread(target=self._listen, daemon=True).start()
        for line in self._kcat.stdout:
            partition, offset, value = line.rstrip("\n").split(" ", 2)
            _tell({"event": "record", "partition": int(partition), "offset": int(offset), "value": value})
        code = self._kcat.wait(20)
        rebalances.join(5)
        if self._limit is not None and code == 0:
            _tell({"event": "committed"})
        return code

    def _rebalances(self, lines: IO[str]) -> None:
        for line in lines:
            found = _REBALANCED.match(line)
            if found is None:
                print(line, end="", file=sys.stderr)
                continue
            what, named = found[1], {int(number) for number in _PARTITION.findall(found[2])}
            if "revoke" in what:
                self._owned -= named
            elif "incremental" in what:
                self._owned |= named
            else:
                self._owned = named
            _tell({"event": "assigned", "partitions": sorted(self._owned)})

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self._kcat.send_signal(signal.SIGTERM)


def _offsets_by_time(options: argparse.Namespace) -> str:
    """With the times between two batches: kcat cannot set a record's time."""
    between = 0
    for count in (4, 6):
        between = int(time.time() * 1000)
        time.sleep(0.05)
        lines = "x\n" * count
        command = ["kcat", "-P", "-b", options.bootstrap, "-t", options.topic, "-p", "0", "-X", "acks=all"]
        subprocess.run(command, input=lines, text=True, check=True, timeout=30)
        time.sleep(0.05)
    seen = []
    for at, expected in ((-2, 0), (-1, 10), (between, 4), (int(time.time() * 1000), 10)):
        command = ["kcat", "-Q", "-b", options.bootstrap, "-t", f"{options.topic}:0:{at}"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        found = re.search(r"offset (-?\d+)", said)
        assert found is not None, f"kcat said {said!r}"
        assert int(found[1]) in (expected, -1 if expected == 10 else expected), f"at {at}: {found[1]}, not {expected}"
        seen.append(found[1])
    return f"earliest, latest, of a time between two batches, of now: {', '.join(seen)}"


def _offsets_topic(options: argparse.Namespace) -> str:
    """A group commits; then all of `__consumer_offsets` is read, and the commit stands in it as Kafka writes it."""
    command = ["kcat", "-P", "-b", options.bootstrap, "-t", options.topic, "-p", "0", "-X", "acks=all"]
    subprocess.run(command, input="x\n" * 12, text=True, check=True, timeout=30)
    command = ["kcat", "-b", options.bootstrap, "-G", options.group, "-X", "auto.offset.reset=earliest"]
    subprocess.run([*command, "-c", "12", options.topic], capture_output=True, check=True, timeout=30)
    own = ["-t", "__consumer_offsets"]
    listed = subprocess.run(
        ["kcat", "-L", "-b", options.bootstrap, *own], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert "with 50 partitions" in listed, listed[:500]
    read = ["kcat", "-C", "-b", options.bootstrap, *own, "-o", "beginning", "-e", "-q", "-Z", "-f", "%K %k%S %s"]
    data = subprocess.run(read, capture_output=True, check=True, timeout=60).stdout
    names = [len(name).to_bytes(2, "big") + name for name in (options.group.encode(), options.topic.encode())]
    key = b"\x00\x01" + b"".join(names) + bytes(4)
    values = [piece.split(b" ", 1)[1] for piece in data.split(b"%d %s" % (len(key), key))[1:]]
    offsets = [int.from_bytes(value[2:10], "big") for value in values if value[:2] == b"\x00\x04"]
    assert offsets and offsets[-1] == 12, f"{offsets} in {len(data)} bytes"
    return f"{len(offsets)} commits of the group found among {len(data)} bytes of __consumer_offsets, the last 12"


_STORIES: dict[str, Callable[[argparse.Namespace], str]] = {
    "offsets_by_time": _offsets_by_time,
    "offsets_topic": _offsets_topic,
}


def _tell(event: dict[str, Any]) -> None:
    with _TELLING:  # kcat's two pipes are read by two threads
        print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
