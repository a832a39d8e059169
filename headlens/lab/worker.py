"""A process that does runs: descriptions come in on stdin, one JSON object a line, events go out on stdout.

Started by :mod:`headlens.lab.pool` as ``python -m headlens.lab.worker``. A plain subprocess, since multiprocessing
would run the main script of a Streamlit server again. It ends when stdin ends or nobody reads its stdout any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

SECONDS_BETWEEN_STEPS = 0.25


def main() -> int:
    """Reads and does runs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the pool decides what ends
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print must not get between the events
    try:
        import torch

        torch.set_num_threads(1)  # the same bits whatever the machine has
        for line in sys.stdin:
            _do(json.loads(line), events)
    except BrokenPipeError:
        os._exit(0)  # nobody listens; a plain exit would try to flush once more
    return 0


def _now_and_then(send: Callable[..., None]) -> Callable[[int], None]:
    """Tells the steps done, so often that progress moves and a pool that is gone is noticed."""
    told = time.monotonic()

    def on_step(step: int) -> None:
        nonlocal told
        if time.monotonic() - told > SECONDS_BETWEEN_STEPS:
            told = time.monotonic()
            send(event="step", step=step)

    return on_step


def _do(order: dict[str, Any], events: TextIO) -> None:
    from headlens.errors import HeadlensError
    from headlens.lab.experiment import run, seconds_a_step
    from headlens.lab.specs import RunSpec
    from headlens.lab.training import Watch
    from headlens.store import Store

    def send(**event: Any) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    try:
        if order["do"] == "probe":
            send(event="probed", seconds=seconds_a_step(RunSpec.from_dict(order["spec"])))
            return
        result = run(
            RunSpec.from_dict(order["spec"]),
            Store(order["store"]),
            resume=order["resume"],
            watch=Watch(_now_and_then(send), lambda point: send(event="point", step=point.step, bits=point.bits)),
        )
    except HeadlensError as error:
        send(event="failed", message=str(error))
        return
    except BrokenPipeError:
        raise
    except Exception:  # noqa: BLE001 - told to the pool, which raises it
        send(event="bug", message=traceback.format_exc())
        return
    send(event="done", result=result.to_dict())


if __name__ == "__main__":
    sys.exit(main())
