"""Errors that users see: each message is one line that says what to do."""

from __future__ import annotations


class HeadlensError(Exception):
    """The user's mistake or a limit of this machine, told in one line.

    The command line prints ``error: <message>`` and exits with 2; the app shows the message in place.
    A message names the offending input and what to do instead.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class DataError(HeadlensError):
    """A data file or text that cannot be used as it is."""


class ModelError(HeadlensError):
    """A model that cannot be found, opened or understood."""


class HeadError(HeadlensError):
    """A head label or head set that does not exist in this model."""


class StoreError(HeadlensError):
    """Results cannot be written to or read from the store."""


class NoSignalError(HeadlensError):
    """The data cannot tell heads apart (one token, a constant text, ...), so nothing is ranked."""


class Cancelled(Exception):  # noqa: N818 - a request, not an error
    """Raised from an ``on_progress`` callback to stop long work; finished units stay stored."""
