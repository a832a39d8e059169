"""Entry point: runs a command and turns whatever comes out of it into one line and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from headlens.cli.failures import BUG, DONE, explain

DEBUG_VARIABLE = "HEADLENS_DEBUG"
"""When set and not empty, a bug shows its traceback and libraries may warn."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``headlens``.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code: 0 done, 1 a bug, 2 the user's mistake, 130 cancelled.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    with _interrupts(), _quiet_libraries(), _logs_on_stderr():
        try:
            return _run(arguments)
        except BaseException as error:  # noqa: BLE001 - the one place where everything ends
            _ignore_interrupts()  # a second Ctrl-C must not tear the message
            return _fail(error)


def _run(arguments: list[str]) -> int:
    # Imported here, so that Ctrl-C is already in our hands while it takes its time.
    import typer

    from headlens.cli.commands import command

    try:
        with command().make_context("headlens", arguments) as context:
            context.command.invoke(context)
    except typer.Exit as leaving:
        sys.stdout.flush()
        return leaving.exit_code
    sys.stdout.flush()  # a full disk or a closed pipe is told now, not by the interpreter at its end
    return DONE


def _fail(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else DONE if error.code is None else BUG
    if isinstance(error, BrokenPipeError):
        # The reader has what it wanted (`headlens models | head`); nothing more may be written, also not at exit.
        _drop_stdout()
        return DONE
    code, message = explain(error)
    if code == BUG and os.environ.get(DEBUG_VARIABLE):
        message = "".join(traceback.format_exception(error)).rstrip()
    with suppress(OSError):
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()
    return code


def _drop_stdout() -> None:
    with suppress(OSError, ValueError):  # ValueError: stdout is no real file (captured by a test)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: KeyboardInterrupt in the main thread, told as ``cancelled``, exit code 130."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_interrupts() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Warnings and advice of libraries do not belong between our lines; ``HEADLENS_DEBUG`` lets them through."""
    if os.environ.get(DEBUG_VARIABLE):
        yield
        return
    # transformers reads these when it is imported, so they are set before that and stay.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _StderrHandler(logging.Handler):
    """Writes to whatever ``sys.stderr`` is at that moment, so that lines appear above a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line for each record."""
        with suppress(OSError):
            sys.stderr.write(f"{record.levelname.lower()}: {' '.join(self.format(record).split())}\n")


@contextmanager
def _logs_on_stderr() -> Iterator[None]:
    logger: Any = logging.getLogger("headlens")
    handler, propagate = _StderrHandler(level=logging.WARNING), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
