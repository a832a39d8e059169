"""The engine's speed figures, as ratios within one run; prints a table and writes it to ``benchmarks/latest.json``.

Times are CPU times of one thread (wall time on a shared machine measures the neighbours), paired and interleaved.
Run with ``make bench`` on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

EXAMPLES, TOKENS = 4, 64
MODEL = "smollm2-135m"


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall_of_command(*command: str, repeats: int = 5) -> float:
    """Median wall seconds of a command."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def open_seconds() -> float:
    """Wall seconds of opening the converted model in a fresh process, imports of torch and transformers apart."""
    program = (
        "import time, torch, transformers, headlens.lens as l; import transformers.models.llama.modeling_llama;"
        f"t = time.perf_counter(); l.open_model({MODEL!r}); print(time.perf_counter() - t)"
    )
    found = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    return statistics.median(found)


def full_length_data(lens: Lens) -> EncodedData:
    """``EXAMPLES`` examples of exactly ``TOKENS`` tokens, from the built-in stories."""
    from dataclasses import replace

    from headlens.data.dataset import Example
    from headlens.data.encode import encode
    from headlens.data.select import load_data

    stories = load_data("stories", task=lens.task, split="all")
    texts = [example.text or "" for example in stories.examples]
    joined = tuple(Example(text=" ".join(texts[i * 3 : i * 3 + 3])) for i in range(EXAMPLES))
    return encode(lens, replace(stories, examples=joined), max_tokens=TOKENS)


def matmul_rate(lens: Lens, tokens: int) -> float:
    """FLOP per CPU second of this model's own matrix products, weighted by their share of the work."""
    import torch

    config = lens.model.config
    d, inner, vocabulary = config.hidden_size, config.intermediate_size, config.vocab_size
    shapes = [(d, d), (d, inner), (d, inner), (inner, d)] * config.num_hidden_layers + [(d, vocabulary)]
    weights = {shape: torch.randn(shape[1], shape[0]) for shape in set(shapes)}
    inputs = {shape: torch.randn(tokens, shape[0]) for shape in set(shapes)}
    best: dict[tuple[int, int], float] = {}
    with torch.inference_mode():
        for shape, weight in weights.items():
            product = lambda w=weight, x=inputs[shape]: torch.nn.functional.linear(x, w)  # noqa: E731
            product()
            best[shape] = statistics.median(cpu(product) for _ in range(9))
    flops = sum(2 * tokens * a * b for a, b in shapes)
    return flops / sum(best[shape] for shape in shapes)


def unavoidable_flops(lens: Lens, tokens: int, length: int) -> float:
    """FLOPs that prefix reuse cannot avoid: for each head, its layer's output projection and MLP, and all after it."""
    config = lens.model.config
    d, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    d_head = lens.topology.sites[0].layers[0].d_head
    kv = config.num_key_value_heads * d_head
    attention = 2 * heads * d_head * length  # scores and weighted sum over a causal half, both products
    output, mlp = 2 * heads * d_head * d, 3 * 2 * d * inner
    block = 2 * d * (heads * d_head + 2 * kv) + attention + output + mlp
    head = 2 * d * config.vocab_size
    layers = config.num_hidden_layers
    per_token = sum(heads * (output + mlp + (layers - 1 - layer) * block + head) for layer in range(layers))
    return float(per_token * tokens)


def bench_sweep(lens: Lens, data: EncodedData) -> Mapping[str, float]:
    """Sweep against the arithmetic limit and against the plain loop of masked forwards (sampled, interleaved)."""
    import torch

    from headlens.metrics import METRICS, readout, sums
    from headlens.run import Run
    from headlens.sweep import Sweep, SweepSpec
    from headlens.switches import Replacements, edits_for, off_mask

    batch = data.batches(EXAMPLES)[0]
    heads = list(lens.topology.heads())
    sampled = heads[::18]

    def masked_forward(index: int) -> None:
        masks = off_mask(lens.topology, lens.topology.parse(lens.topology.label("self", *_place(sampled[index]))))
        with torch.inference_mode():
            run = Run(edits=edits_for(masks, Replacements("zero"), batch, lens.device))
            sums(METRICS["loss"], readout(lens.forward(batch.inputs, run), lens.task), batch)

    masked_forward(0)
    rate_before = matmul_rate(lens, EXAMPLES * TOKENS)
    loop = [cpu(lambda i=i: masked_forward(i)) for i in range(len(sampled) // 2)]
    sweep = Sweep(lens, data, SweepSpec(METRICS["loss"]))
    sweep_seconds = cpu(lambda: list(sweep.units()))
    loop += [cpu(lambda i=i: masked_forward(i)) for i in range(len(sampled) // 2, len(sampled))]
    rate = (rate_before + matmul_rate(lens, EXAMPLES * TOKENS)) / 2
    limit = unavoidable_flops(lens, EXAMPLES * TOKENS, TOKENS) / rate
    return {
        "sweep_cpu_s": sweep_seconds,
        "matmul_gflops": rate / 1e9,
        "limit_share": limit / sweep_seconds,
        "loop_over_sweep": statistics.median(loop) * len(heads) / sweep_seconds,
    }


def _place(head: Any) -> tuple[int, int]:
    return head.layer, head.head


def bench_gradient(lens: Lens, data: EncodedData) -> float:
    """Gradient scores of all heads, in plain forward passes with the loss computed (median of 9 pairs)."""
    import torch

    from headlens.importance import METHODS, Request
    from headlens.metrics import METRICS, readout, sums
    from headlens.run import Run

    batch = data.batches(EXAMPLES)[0]
    request = Request(METRICS["loss"], data, batch_size=EXAMPLES)

    def forward() -> None:
        with torch.inference_mode():
            sums(METRICS["loss"], readout(lens.forward(batch.inputs, Run()), lens.task), batch)

    def gradient() -> None:
        METHODS["gradient"].compute(lens, request)

    forward()
    gradient()
    return statistics.median(cpu(gradient) / cpu(forward) for _ in range(9))


def bench_switches(lens: Lens, data: EncodedData) -> float:
    """Extra CPU time of a forward with 30 heads off in 30 layers over one with no run at all (median of 15 pairs)."""
    import torch

    from headlens.run import Run
    from headlens.switches import Replacements, edits_for, off_mask

    batch = data.batches(EXAMPLES)[0]
    off = lens.topology.parse(",".join(f"L{layer}H{layer % 9}" for layer in range(30)))
    edits = edits_for(off_mask(lens.topology, off), Replacements("zero"), batch, lens.device)

    def plain() -> None:
        with torch.inference_mode():
            lens.forward(batch.inputs)

    def switched() -> None:
        with torch.inference_mode():
            lens.forward(batch.inputs, Run(edits=edits))

    plain()
    switched()
    pairs = []
    for turn in range(15):
        order = (plain, switched) if turn % 2 else (switched, plain)
        times = {work: cpu(work) for work in order}
        pairs.append(times[switched] / times[plain] - 1)
    return statistics.median(pairs)


def sweep_memory() -> float:
    """Peak memory of a whole process that opens the model and sweeps its lowest layers, over the weights, in GB.

    Python, torch and transformers are in it; the lowest layers need most.
    """
    program = (
        "import resource, sys; sys.path.insert(0, 'benchmarks');"
        "from engine import MODEL, full_length_data; from headlens.lens import open_model;"
        "from headlens.metrics import METRICS; from headlens.sweep import Sweep, SweepSpec;"
        "lens = open_model(MODEL); data = full_length_data(lens);"
        "units = Sweep(lens, data, SweepSpec(METRICS['loss'])).units(); [next(units) for _ in range(4)];"
        "print(4 * lens.parameters, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    weights, peak = (int(x) / 1e9 for x in found[-2:])
    return peak - weights


def main() -> None:
    """Measures everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/latest.json"))
    out = parser.parse_args().out
    os.environ.setdefault("HEADLENS_CACHE", tempfile.mkdtemp(prefix="headlens-bench-"))
    import torch

    from headlens.lens import open_model

    torch.set_num_threads(1)
    lens = open_model(MODEL)
    data = full_length_data(lens)
    rows: list[tuple[str, float, str, bool]] = []
    sweep = bench_sweep(lens, data)
    rows.append(("sweep: share of the arithmetic limit", sweep["limit_share"], ">= 0.8", sweep["limit_share"] >= 0.8))
    rows.append(("plain loop / sweep", sweep["loop_over_sweep"], ">= 1.5", sweep["loop_over_sweep"] >= 1.5))
    gradient = bench_gradient(lens, data)
    rows.append(("gradient, in forward passes", gradient, "<= 2.3", gradient <= 2.3))
    switches = bench_switches(lens, data)
    rows.append(("switches in place, extra share of a forward", switches, "<= 0.03", switches <= 0.03))
    helped = wall_of_command("-m", "headlens", "--help")
    rows.append(("headlens --help, s", helped, "<= 0.5", helped <= 0.5))
    imported = wall_of_command("-c", "import headlens")
    rows.append(("import headlens, s", imported, "<= 0.5", imported <= 0.5))
    opened = open_seconds()
    rows.append(("open smollm2-135m (converted), s", opened, "<= 3", opened <= 3))
    extra = sweep_memory()
    rows.append(("sweep: peak of the process over the weights, GB", extra, "<= 1.5", extra <= 1.5))
    _report(rows, sweep, out)


def _report(rows: list[tuple[str, float, str, bool]], sweep: Mapping[str, float], out: Path) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    date = datetime.now(UTC).date().isoformat()
    print(f"{MODEL}, {EXAMPLES} x {TOKENS} tokens, one thread, CPU time; {machine}; {date}")
    print(f"sweep {sweep['sweep_cpu_s']:.1f} CPU s; matrix products run at {sweep['matmul_gflops']:.1f} GFLOP/s here")
    for name, value, target, met in rows:
        print(f"{name:48s} {value:8.3f}  {target:8s} {'met' if met else 'MISSED'}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = {"date": date, "machine": machine, "rows": [list(row) for row in rows], **sweep, "peak_gb": peak}
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
