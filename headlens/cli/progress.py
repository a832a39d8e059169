"""How far a computation is, on stderr: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from headlens.cli.output import say

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SECONDS_BETWEEN_LINES = 5.0


class Reporter:
    """Takes ``on_progress`` calls; prints nothing for work that is short."""

    def __init__(self) -> None:
        self.title = ""
        self.start = self.said = time.monotonic()

    def phase(self, title: str) -> None:
        """A new stretch of work begins."""
        self.title = title
        self.start = self.said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """``done`` of ``total`` steps are finished."""
        now = time.monotonic()
        if now - self.said < SECONDS_BETWEEN_LINES or not done:
            return
        self.said = now
        elapsed = now - self.start
        left = elapsed * (total - done) / done
        say(f"{self.title}: {100 * done / total:.0f} % ({clock(elapsed)} elapsed, about {clock(left)} remaining)")


class _Bar(Reporter):
    """The same as a bar that is gone when the work is done."""

    def __init__(self, bars: RichProgress) -> None:
        super().__init__()
        self.bars = bars
        self.task: TaskID | None = None

    def phase(self, title: str) -> None:
        """See the base class."""
        super().phase(title)
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.task = self.bars.add_task(title, total=None)

    def __call__(self, done: int, total: int) -> None:
        """See the base class."""
        if self.task is not None:
            self.bars.update(self.task, completed=done, total=total)


@contextmanager
def computing() -> Iterator[Reporter]:
    """Everything that is opened and computed goes in here: what libraries print meanwhile must not reach stdout."""
    with redirect_stdout(sys.stderr):
        if not sys.stderr.isatty():
            yield Reporter()
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        # redirect_stdout of rich would put back a stream that is no longer the current one
        with Progress(
            *columns,
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            Remaining(),
            TextColumn("remaining"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        ) as bars:
            yield _Bar(bars)


def clock(seconds: float) -> str:
    """``42 s``, ``3 min 05 s`` or ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
