"""Spark clusters of this machine, for tests, and drivers of jobs on them that can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.edges.musterd import free_port

ROOT = Path(__file__).parents[2]
_ENDS_WITHIN_S = 300.0


def environment(**more: str) -> dict[str, str]:
    """Return that of a process of Spark's: it finds the sources here, and puts its work elsewhere by `more`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **more}


@contextmanager
def standalone(folder: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """Run `deploy/spark/cluster.py` on free ports; yield its addresses, by what its first line calls them."""
    folder.mkdir()
    command = [sys.executable, str(ROOT / "deploy" / "spark" / "cluster.py"), "--folder", str(folder), *arguments]
    command += ["--port", str(free_port()), "--web-port", str(free_port())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:1] == ["ready"], [path.read_text()[-2000:] for path in folder.glob("*.log")]
        yield dict(address.split("=", 1) for address in said[1:])
    finally:
        process.terminate()
        process.communicate(timeout=_ENDS_WITHIN_S)
    assert process.returncode == 0


class Driver:
    """A program with a Spark session, in a session of processes of its own."""

    def __init__(self, command: Sequence[str], folder: Path, **settings: str) -> None:
        self._log = folder / "driver.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment(SPARK_WORKER_DIR=str(folder / "work"), **settings),
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL to the driver: its JVM and its Python process, and none of those that they have started."""
        for process in (*self._java(), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """End its standard input."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> int:
        """Return the exit code, once it has ended by itself."""
        code = self.process.wait(_ENDS_WITHIN_S)
        self.stop()
        return code

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def said(self) -> str:
        return self._log.read_text()[-4000:]

    def _java(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with suppress(OSError):
            ids = map(int, children.read_text().split())
            return [one for one in ids if "java" in Path(f"/proc/{one}/comm").read_text()]
        return []
