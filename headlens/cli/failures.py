"""What went wrong, as one line and an exit code."""

from __future__ import annotations

import errno
from typing import Any

from headlens.errors import Cancelled, HeadlensError

DONE, BUG, MISTAKE, CANCELLED = 0, 1, 2, 130

_USERS_DISK = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG, errno.EIO, errno.ENAMETOOLONG}
)


def explain(error: BaseException) -> tuple[int, str]:
    """Exit code and one line for the user.

    Args:
        error: what ended the command.

    Returns:
        ``error: ...`` with 2 for the user's mistake or a limit of the machine, ``cancelled...`` with 130, and
        ``error: internal: ...`` with 1 for everything that should not have happened.
    """
    if isinstance(error, (KeyboardInterrupt, Cancelled)):
        return CANCELLED, _line("cancelled", str(error))
    if isinstance(error, HeadlensError):
        return MISTAKE, _line("error", str(error))
    usage = _usage(error)
    if usage is not None:
        return MISTAKE, _line("error", usage)
    if isinstance(error, OSError) and error.errno in _USERS_DISK:
        place = error.filename or "the output"
        return MISTAKE, _line("error", f"{place}: {error.strerror}; free space there or choose another place")
    if _is_out_of_memory(error):
        advice = "try --batch-size 1, a smaller --max-tokens or a smaller model"
        return MISTAKE, _line("error", f"not enough memory; {advice}")
    hint = "this is a bug in HeadLens: set HEADLENS_DEBUG=1 and run again to see where"
    return BUG, _line("error", f"internal: {type(error).__name__}: {error}; {hint}")


def _line(kind: str, text: str) -> str:
    text = " ".join(text.split())
    return f"{kind}: {text}" if text else kind


def _usage(error: BaseException) -> str | None:
    """Message of a mistake in the arguments, with the place where they are explained; None for other errors."""
    from typer import TyperException

    if not isinstance(error, TyperException):
        return None
    context: Any = getattr(error, "ctx", None)
    path = "headlens" if context is None else context.command_path
    message = error.format_message().replace("Value error, ", "").rstrip().rstrip(".")
    return f"{message} (see `{path} --help`)"


def _is_out_of_memory(error: BaseException) -> bool:
    """Told by name and text: torch must not be imported for this, and its CPU allocator raises plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
