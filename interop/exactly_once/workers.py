"""Programs that work in transactions, and what they say."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from interop.processes import Program, ask_to_stop, kill_group

_STOP_S = 90.0


class Worker:
    """A process of a program, which can be killed and started again."""

    def __init__(self, program: Program, arguments: Sequence[str], log: Path) -> None:
        self.told: Counter[str] = Counter()
        """Events, and records that were committed."""
        self._program, self._arguments, self._log = program, arguments, log
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as stderr:
            self._process = self._program.start(self._arguments, stderr)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with suppress(ValueError):  # closed under us, after a kill
            for line in process.stdout:
                if line.startswith("{") and line.endswith("}\n"):
                    event = json.loads(line)
                    self.told[event["event"]] += 1
                    self.told["records"] += event["records"] if event["event"] == "committed" else 0

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def crash(self) -> None:
        """SIGKILL, and another process with the same arguments."""
        self.kill()
        self._start()

    def revive(self) -> None:
        """Start it again if it has ended by itself, as whoever runs a service does."""
        if self.exit_code is not None:
            self.told["ended by itself"] += 1
            self.crash()

    def stop(self) -> int | None:
        """Ask it to end; its exit code, None if it did not."""
        ask_to_stop(self._process)
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        kill_group(self._process)
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
