"""Peak memory of a fresh process that opens one model and runs it: a process that did other things cannot tell.

``python -m headlens.pruning.memory_probe '{"model": ..., ...}'`` prints one JSON object; see :func:`peak_memory`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headlens.errors import HeadlensError

_STATUS = Path("/proc/self/status")
WAIT_SECONDS = 0.2


@dataclass(frozen=True)
class MemoryAsk:
    """What to run.

    Attributes:
        model: MODEL of the command line.
        off: HEADS that are masked.
        device, dtype: as on the command line.
        batch, prompt, new: see :class:`headlens.pruning.workloads.Shape`.
    """

    model: str
    off: str
    device: str
    dtype: str | None
    batch: int
    prompt: int
    new: int


@dataclass(frozen=True)
class Memory:
    """What it took, in bytes.

    Attributes:
        before: resident when Python, torch and transformers were imported and no model was open.
        peak: most that was ever resident.
        device_peak: most that was ever allocated on a GPU; None on a CPU.
    """

    before: int
    peak: int
    device_peak: int | None


def peak_memory(ask: MemoryAsk, on_wait: Callable[[], None] | None = None) -> Memory:
    """Runs ``ask`` in a process of its own.

    Args:
        ask: what to run.
        on_wait: called a few times a second meanwhile; an exception from it ends the process and comes through.

    Raises:
        HeadlensError: the process failed; with its last line.
    """
    command = [sys.executable, "-m", "headlens.pruning.memory_probe", json.dumps(asdict(ask))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=WAIT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if on_wait is not None:
                        on_wait()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        last = (err.strip().splitlines() or ["no reason was given"])[-1]
        raise HeadlensError(f"the memory of {ask.model} could not be measured: {last}")
    return Memory(**json.loads(out))


def resident_peak() -> int:
    """Most bytes that this process ever had resident.

    On Linux from ``VmHWM``: ``getrusage`` would count what the parent had at the fork.
    """
    if _STATUS.is_file():
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _run(ask: MemoryAsk) -> Memory:
    import torch
    import transformers  # noqa: F401 - part of "before"

    from headlens.lens import open_model
    from headlens.pruning.workloads import Shape, Workload

    before = resident_peak()
    lens = open_model(ask.model, device=ask.device, dtype=ask.dtype)
    Workload(lens, lens.topology.parse(ask.off), Shape(ask.batch, ask.prompt, ask.new)).measure()
    on_gpu = lens.device.type == "cuda"
    return Memory(before, resident_peak(), int(torch.cuda.max_memory_allocated(lens.device)) if on_gpu else None)


def main(argument: str) -> None:
    """Entry point of the process."""
    asked: dict[str, Any] = json.loads(argument)
    sys.stdout.write(json.dumps(asdict(_run(MemoryAsk(**asked)))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
