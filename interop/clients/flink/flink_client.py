"""A job of Flink that copies a topic: by its group's offsets, or with the verb `transform` exactly once."""

import os
import subprocess
import sys
import tempfile

from interop.judge import Judge
from interop.program import Options, answer, check, told_to_copy, until

_PARTITIONS = 3
_COPIED_S = 60.0
_JAVA = ("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "classes:lib/*")
_SETTINGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
_COPY = (*_JAVA, *_SETTINGS, "Copy")


def commit_resume(options: Options) -> str:
    judge = Judge(options.bootstrap)
    for topic in (options.topic, f"{options.topic}-out"):
        judge.create(topic, _PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        _copy(options, judge, range(60), f"{folder}/first")
        _copy(options, judge, range(60, 100), f"{folder}/second")
    return "60 records copied, and committed at a checkpoint; killed, and without it exactly the other 40"


def _copy(options: Options, judge: Judge, numbers: range, folder: str) -> None:
    """Write numbers and have a job copy and commit them, which is killed then."""
    to = f"{options.topic}-out"
    everything = sorted(str(number) for number in range(numbers.stop))
    judge.produce(options.topic, [(number % _PARTITIONS, str(number)) for number in numbers])
    words = [options.bootstrap, options.group, options.topic, to, folder, "AT_LEAST_ONCE"]
    job = subprocess.Popen([*_COPY, *words], stdin=subprocess.PIPE, stdout=sys.stderr)

    def is_committed() -> bool:
        return judge.committed_total(options.group, options.topic, _PARTITIONS) == numbers.stop

    try:
        until(is_committed, f"{numbers.stop} records are read and committed", _COPIED_S)
        copied = sorted(value for _, value in judge.everything(to, _PARTITIONS))
        check(copied == everything, f"{len(copied)} records were copied, not {numbers.stop}, or others")
    finally:
        job.kill()
        job.wait(20)


def transform() -> None:
    """Become a job whose sink has DeliveryGuarantee.EXACTLY_ONCE, which ends with the line `stop`."""
    given = told_to_copy()
    words = [given.bootstrap, given.group, given.topic, given.to, given.folder]
    os.execvp(_COPY[0], [*_COPY, *words, "EXACTLY_ONCE"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["transform"]:
        transform()
    sys.exit(answer({"commit_resume": commit_resume}))
