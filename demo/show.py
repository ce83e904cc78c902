"""Display of the progress: bars on a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

_TENTHS = 10


class Show:
    """Bars by name, and sentences above them, each with its second."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._bars: dict[str, TaskID] = {}
        self._tenths: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._progress = Progress(*columns, console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, sentence: str) -> None:
        elapsed = time.monotonic() - self._began
        self.console.print(f"[dim]{elapsed:6.1f} s[/dim]  {sentence}", highlight=False, soft_wrap=True)

    def set(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show the progress of `name`."""
        if self._progress is None:
            tenth = done * _TENTHS // total if total else 0
            if tenth > self._tenths.get(name, 0):
                self._tenths[name] = tenth
                self.say(f"{name}: {done:,} of {total:,}{f', {note}' if note else ''}")
            return
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, note=note)
        self._progress.update(self._bars[name], completed=done, total=total, note=note)

    def table(self, *columns: str) -> Table:
        """An empty one: the first column to the left, the others to the right."""
        table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        return table
