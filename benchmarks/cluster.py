"""What the Ray engine costs and how it scales, against plain processes in the same run; prints Markdown.

One thread each, units of equal size, rounds interleaved. Run with ``make bench-cluster`` on an otherwise idle machine
with at least two cores; starts a Ray of its own.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

MODEL = "smollm2-135m"
EXAMPLES, TOKENS = 8, 64
LAYER = 15
"""In the middle, so that its units take the average time."""
WORKERS = (1, 2, 4, 8, 16, 32, 64)
PARTS_EACH = 4
"""As the engine has it: parts for each worker."""
LARGE = 2000
"""Examples of the evaluation set for which the arithmetic is done."""


@dataclass(frozen=True)
class Round:
    """Units a second of one way of doing the same units."""

    way: str
    rate: float
    seconds: float
    compute: float


def sweep_of(model: str) -> Any:
    """The sweep whose units are timed: batches of one layer, all of one size."""
    import torch

    from headlens.data.dataset import Example
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.lens import open_model
    from headlens.metrics import METRICS
    from headlens.sweep import Sweep, SweepSpec

    torch.set_num_threads(1)
    lens = open_model(model)
    from dataclasses import replace

    stories = load_data("stories", task=lens.task, split="all")
    texts = [example.text or "" for example in stories.examples]
    joined = tuple(Example(text=" ".join(texts[(i + j) % len(texts)] for j in (0, 1, 2, 3))) for i in range(EXAMPLES))
    data = encode(lens, replace(stories, examples=joined), max_tokens=TOKENS)
    return Sweep(lens, data, SweepSpec(METRICS["loss"]))


def parts_of(sweep: Any, layer: int, units: int) -> list[Any]:
    """So many units: one batch of one layer each, over and over if there are too few batches."""
    from headlens.sweep import Part

    site = sweep.lens.topology.sites[0].name
    return [Part(site, min(layer, _layers(sweep) - 1), (i % len(sweep.batches),)) for i in range(units)]


def _layers(sweep: Any) -> int:
    return len(sweep.lens.topology.sites[0].layers)


def plain(model: str, layer: int) -> None:
    """A plain process: does the units that it is told on stdin, answers with seconds."""
    sweep = sweep_of(model)
    sweep.measure(parts_of(sweep, layer, 1)[0])
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for part in parts_of(sweep, layer, int(line)):
            sweep.measure(part)
        print(time.perf_counter() - start, flush=True)


class Plain:
    """Plain processes that wait for a word."""

    def __init__(self, number: int, model: str, layer: int) -> None:
        command = [sys.executable, __file__, "--plain", "--model", model, "--layer", str(layer)]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)
        ]
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def run(self, number: int, units: int) -> Round:
        """``units`` by ``number`` of them at once."""
        start = time.perf_counter()
        for process in self.processes[:number]:
            assert process.stdin is not None
            process.stdin.write(f"{units // number}\n")
            process.stdin.flush()
        compute = [float(process.stdout.readline()) for process in self.processes[:number] if process.stdout]
        seconds = time.perf_counter() - start
        return Round(f"{number} plain", units / seconds, seconds, sum(compute))

    def end(self) -> None:
        """Ends them."""
        for process in self.processes:
            process.kill()
            process.wait()


class OnlyTimed:
    """The job of the timed units: measured by workers, kept nowhere."""

    def __init__(self, sweep: Any) -> None:
        self.sweep = sweep
        self.compute = 0.0
        self.found: dict[Any, np.ndarray] = {}
        for name in ("recipe", "order", "home", "measure"):
            setattr(self, name, getattr(sweep, name))

    def known(self, unit: Any) -> None:
        """Nothing is."""

    def parts(self, unit: Any, count: int) -> Sequence[Any]:  # noqa: ARG002
        """They are small enough."""
        return (unit,)

    def waits(self, unit: Any, busy: Any) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def told(self, unit: Any, note: Any) -> None:
        """Not needed."""

    def finished(self, unit: Any, seconds: float) -> None:
        """Not needed."""

    def look(self) -> None:
        """Not needed."""

    def keep(self, unit: Any, found: dict[str, np.ndarray], seconds: float) -> bool:
        """Adds up the time."""
        self.compute += seconds
        self.found[unit] = found["numerator"]
        return True


def ray_round(engine: Any, sweep: Any, number: int, layer: int, units: int) -> tuple[Round, OnlyTimed]:
    """``units`` by ``number`` workers of the engine, all of which have the model open."""
    job = OnlyTimed(sweep)
    start = time.perf_counter()
    done = sum(1 for _ in engine.run(job, parts_of(sweep, layer, units)))
    seconds = time.perf_counter() - start
    assert done == units
    return Round(f"{number} Ray", units / seconds, seconds, job.compute), job


def makespan(costs: Sequence[float], workers: int) -> float:
    """Seconds until all units are done when each idle worker takes the next one."""
    free = [0.0] * workers
    for cost in costs:
        heapq.heapreplace(free, free[0] + cost)
    return max(free)


def arithmetic(sweep: Any, unit_seconds: float, overhead: float, start_seconds: float, layer: int) -> list[str]:
    """Table rows: a whole sweep over ``LARGE`` examples on more workers, from what was measured.

    A unit of layer l costs as many multiplications as weights lie behind it (the later blocks and the read-out), for
    each head; idle workers take the next unit; each worker computes the prefix of the batches that it works on once.
    """
    layers, places = _layers(sweep), sweep.lens.sites[0].layers
    block = sum(parameter.numel() for parameter in places[0].block.parameters())
    head = sweep.lens.model.config.hidden_size * sweep.lens.vocabulary
    behind = [(layers - number) * block + head for number in range(layers)]
    batches = LARGE / (EXAMPLES / len(sweep.batches))
    costs = [unit_seconds * batches * weights / behind[min(layer, layers - 1)] for weights in behind]
    prefix = costs[0] / behind[0] * layers * block / places[0].heads  # one forward pass over all examples
    one = start_seconds + sum(costs) + layers * overhead + prefix
    rows = []
    for workers in WORKERS:
        parts = -(-PARTS_EACH * workers // layers)
        each = [cost / parts + overhead for cost in costs for _ in range(parts)]
        total = start_seconds + makespan(each, workers) + prefix * min(1.0, PARTS_EACH / parts)
        rows.append(
            f"| {workers} | {layers * parts} | {total / 60:.1f} | {one / total:.1f} | {one / total / workers:.0%} |"
        )
    return rows


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=16, help="units a round (even)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--layer", type=int, default=LAYER)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.plain:
        plain(asked.model, asked.layer)
        return
    os.environ.setdefault("HEADLENS_CACHE", tempfile.mkdtemp(prefix="headlens-bench-"))
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    measure(asked.model, asked.layer, asked.units, asked.rounds)


def measure(model: str, layer: int, units: int, rounds: int) -> None:
    """Interleaved rounds of one and two plain processes, one and two workers."""
    from headlens.engine import engine_for

    sweep = sweep_of(model)
    processes = Plain(2, model, layer)
    begun = time.perf_counter()
    engine = engine_for("ray", None, 2)
    try:
        ray_round(engine, sweep, 2, layer, 8)
        start_seconds = time.perf_counter() - begun
        found: list[Round] = []
        job = None
        for _ in range(rounds):
            for number in (1, 2):
                found.append(processes.run(number, units))
                timed, job = _with(engine, number, sweep, layer, units)
                found.append(timed)
        same = job is not None and all(
            np.array_equal(values, sweep.measure(part)["numerator"]) for part, values in list(job.found.items())[:2]
        )
    finally:
        engine.close()
        processes.end()
    _report(sweep, found, start_seconds, layer, units, same)


def _with(engine: Any, number: int, sweep: Any, layer: int, units: int) -> tuple[Round, OnlyTimed]:
    """A round with so many of the crew's workers."""
    crew = engine._crew
    idle = crew.idle
    crew.idle = lambda: [hand for hand in idle() if hand in crew.hands[:number]]
    try:
        return ray_round(engine, sweep, number, layer, units)
    finally:
        del crew.idle


def _report(sweep: Any, found: list[Round], start: float, layer: int, units: int, same: bool) -> None:
    def median(way: str, of: str = "rate") -> float:
        return statistics.median(getattr(one, of) for one in found if one.way == way)

    ratios = [
        ray.rate / plain.rate
        for plain, ray in zip(
            [one for one in found if one.way == "2 plain"], [one for one in found if one.way == "2 Ray"], strict=True
        )
    ]
    overheads = [(one.seconds - one.compute) / units for one in found if one.way == "1 Ray"]
    unit_seconds = statistics.median(one.compute / units for one in found if one.way == "1 Ray")
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{sweep.lens.name}, {EXAMPLES} x {TOKENS} tokens, units of one batch of layer {layer}, {units} a round;")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {loads}; ", end="")
    print(datetime.now(UTC).date().isoformat())
    print("\n| | units/s (median) | of as many plain processes | seconds a round |\n|---|---|---|---|")
    for way in ("1 plain", "1 Ray", "2 plain", "2 Ray"):
        against = median(way) / median(way.replace("Ray", "plain"))
        print(f"| {way} | {median(way):.2f} | {against:.2f} | {median(way, 'seconds'):.1f} |")
    met = "met" if statistics.median(ratios) >= 0.9 else "MISSED"
    print(f"\nTwo workers reach {statistics.median(ratios):.2f} of two plain processes (rounds: ", end="")
    print(", ".join(f"{ratio:.2f}" for ratio in ratios) + f"); wanted >= 0.9: {met}.")
    overhead = statistics.median(overheads)
    met = "met" if overhead <= 0.05 else "MISSED"
    print(f"Engine overhead a unit: {1000 * overhead:.0f} ms; wanted <= 50 ms: {met}. Units take {unit_seconds:.2f} s.")
    print(f"Ray, two workers and their models: started in {start:.0f} s. Results equal to the bit: {same}.")
    print(f"\nArithmetic for {LARGE} examples of {TOKENS} tokens, all {_layers(sweep)} layers, from these figures:\n")
    print("| workers | units | minutes | times one worker | efficiency |\n|---|---|---|---|---|")
    print("\n".join(arithmetic(sweep, unit_seconds, max(0.0, overhead), start, layer)))


if __name__ == "__main__":
    main()
