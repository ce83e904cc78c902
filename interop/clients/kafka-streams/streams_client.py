"""A word count of Kafka Streams, at least once: repartitioned through one internal topic, its state kept in another."""

import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interop.judge import Judge
from interop.program import Options, answer, check, told_to_copy, until

_PARTITIONS = 3
_TASKS = 2 * _PARTITIONS  # before the repartition topic and after it
_WAIT_S = 60.0
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "classes:lib/*")
_WORDS = ("a rose", "is a rose", "is a rose", "said a cat", "is it")


class Instance:
    """One process of the application. Its state folder is its own: what was counted before comes from the changelog."""

    def __init__(self, options: Options, folder: Path) -> None:
        command = [*_JAVA, "WordCount"]
        command += [options.bootstrap, options.group, options.topic, f"{options.topic}-out", str(folder)]
        self.tasks = 0
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)
        self._reader.join(5)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.tasks = int(line)


class Story:
    """The application's topics, what was written to them, and its instances."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.instances: list[Instance] = []
        self._options = options
        self._folder = folder
        self._judge = Judge(options.bootstrap)
        self._lines: list[str] = []
        self._judge.create(options.topic, _PARTITIONS)
        self._judge.create(f"{options.topic}-out", _PARTITIONS)

    def start(self) -> Instance:
        started = Instance(self._options, self._folder / str(len(self.instances)))
        self.instances.append(started)
        return started

    def write(self, count: int) -> None:
        lines = [_WORDS[number % len(_WORDS)] for number in range(count)]
        self._judge.produce(self._options.topic, [(number % _PARTITIONS, line) for number, line in enumerate(lines)])
        self._lines += lines

    def wait_counted(self) -> None:
        """Returns once every word has its exact count, and what was read is committed."""
        expected = Counter(word for line in self._lines for word in line.split())
        until(lambda: self._counts() == expected, f"the counts of {len(self._lines)} lines", _WAIT_S)
        group, topic = self._options.group, self._options.topic
        reads = {topic: len(self._lines), f"{group}-words-repartition": expected.total()}

        def committed() -> dict[str, int]:
            return {name: self._judge.committed_total(group, name, _PARTITIONS) for name in reads}

        until(lambda: committed() == reads, "all that was read is committed", _WAIT_S)

    def _counts(self) -> Counter[str]:
        latest: Counter[str] = Counter()
        for _, value in self._judge.everything(f"{self._options.topic}-out", _PARTITIONS):
            word, count = value.split()
            latest[word] = int(count)
        return latest


def produce_consume(options: Options) -> str:
    with _story(options) as story:
        story.start()
        story.write(60)
        story.wait_counted()
        return "a word count: repartitioned, its state in a changelog, every count right"


def commit_resume(options: Options) -> str:
    with _story(options) as story:
        first = story.start()
        story.write(60)
        story.wait_counted()
        first.kill()
        story.write(40)
        story.start()
        story.wait_counted()
        return "killed and started with an empty state folder: restored from the changelog, every count right"


def rebalance_cooperative(options: Options) -> str:
    with _story(options) as story:
        one = story.start()
        story.write(30)
        story.wait_counted()
        two = story.start()
        until(lambda: one.tasks + two.tasks == _TASKS and two.tasks > 0, "two instances share the tasks", _WAIT_S)
        check(one.tasks == two.tasks, f"{one.tasks} and {two.tasks} tasks")
        story.write(30)
        story.wait_counted()
        one.kill()
        until(lambda: two.tasks == _TASKS, "the other instance has all tasks", _WAIT_S)
        story.write(30)
        story.wait_counted()
        two.stop()
        return f"{_TASKS} tasks over 1 instance, 2, and 1 after a kill: every count right"


@contextmanager
def _story(options: Options) -> Iterator[Story]:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(options, Path(folder))
        try:
            yield story
        finally:
            for instance in story.instances:
                instance.kill()


STORIES = {
    "produce_consume": produce_consume,
    "rebalance_cooperative": rebalance_cooperative,
    "commit_resume": commit_resume,
}


def transform() -> None:
    """Become an application with `exactly_once_v2`, which ends with the line `stop`."""
    given = told_to_copy()
    words = [given.bootstrap, given.group, given.topic, given.to, given.folder]
    os.execvp(_JAVA[0], [*_JAVA, "ExactlyOnce", *words])


if __name__ == "__main__":
    if sys.argv[1:2] == ["transform"]:
        transform()
    sys.exit(answer(STORIES))
