"""A benchmark in words: what changed, what may be noise, why some of it had to be so, and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headlens.pruning.benchmark import AGAIN, FULL, MASKED, Sizes, Timing
from headlens.pruning.workloads import DECODE

PUBLISHED: dict[str, Any] = {
    "source": "Michel, Levy, Neubig 2019, Table 4",
    "setting": "BERT-base, MNLI-m, 50 % of the heads really removed, GTX 1080 Ti, examples a second",
    "batch_sizes": [1, 4, 16, 64],
    "full": [17.0, 67.3, 114.0, 124.7],
    "full_sd": [0.3, 1.3, 3.6, 2.9],
    "cut": [17.3, 69.1, 134.0, 146.6],
    "cut_sd": [0.6, 1.3, 3.6, 3.4],
    "gain_percent": [1.9, 2.7, 17.5, 17.5],
}
RULE = (
    "change: median over rounds of the ratio to the full model in the same round, with a 95 % bootstrap interval; it "
    "counts as noise if the interval holds 0 or the change is not larger than the far end of the interval of the full "
    "model against itself"
)


def timing_sentence(timing: Timing) -> str:
    """One row in words."""
    spread = timing.spread
    head = (
        f"{timing.phase}, batch {timing.batch}, {timing.variant}: {1e3 * spread.median:.4g} ms "
        f"({1e3 * spread.low:.4g} to {1e3 * spread.high:.4g})"
    )
    if timing.change is None:
        return head
    change = timing.change
    text = f"{head}, {100 * change.value:+.1f} % [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    if timing.noise is None:
        return f"{text} against itself: that is the noise"
    if timing.noise:
        return f"{text}: within noise"
    return f"{text}: {'faster' if change.value < 0 else 'slower'}"


def notes(timings: Sequence[Timing], sizes: Mapping[str, Sizes]) -> list[str]:
    """What a reader should know beside the table."""
    names = {timing.variant for timing in timings}
    found = [_verdict(timings, name) for name in sorted(names - {FULL, AGAIN})]
    if MASKED in names:
        found.append(
            "Masking saves nothing and was not expected to: a masked head is computed like the others, and its output "
            "is replaced just before the output projection; the same weights are read, the same products run, the same "
            "keys and values are cached."
        )
    others = [name for name in sizes if name not in (FULL, AGAIN, MASKED)]
    if any(one.read_and_written for one in sizes.values()):
        found.append("The KV cache is counted for one token that the encoder reads and one that the decoder writes.")
    found += [_saved(name, sizes[FULL], sizes[name]) for name in others if FULL in sizes]
    if others:
        found.append(
            "At batch 1 little is to be expected: the time goes into reading all other weights once a step and into "
            "starting many small operations, and not into the arithmetic of the heads; larger batches do more "
            f"arithmetic for each weight that is read. Published: {published_sentence()}"
        )
    return found


def _verdict(timings: Sequence[Timing], name: str) -> str:
    mine = [timing for timing in timings if timing.variant == name and timing.change is not None]
    clear = [timing for timing in mine if timing.noise is False and timing.change is not None]
    if not mine:
        return f"The {name} model has no times to compare."
    if not clear:
        return f"The {name} model: every difference from the full one is within noise."
    parts = [f"{t.phase} at batch {t.batch} {100 * t.change.value:+.1f} %" for t in clear if t.change is not None]
    rest = len(mine) - len(clear)
    more = f"; the other {rest} of {len(mine)} within noise" if rest else ""
    return f"The {name} model against the full one: {', '.join(parts)}{more}."


def _saved(name: str, full: Sizes, other: Sizes) -> str:
    parts = [f"{_percent(full.parameters, other.parameters)} of the parameters"]
    if full.kv_bytes_per_token and other.kv_bytes_per_token is not None:
        parts.append(f"{_percent(full.kv_bytes_per_token, other.kv_bytes_per_token)} of the KV cache")
    return (
        f"The {name} model has {' and '.join(parts)} less: where the time is that of reading weights, that share is "
        "the most that can be gained."
    )


def _percent(full: int, other: int) -> str:
    return f"{100 * (1 - other / full):.1f} %"


def published_sentence() -> str:
    """Michel et al.'s measurement in one sentence."""
    pairs = zip(PUBLISHED["batch_sizes"], PUBLISHED["gain_percent"], strict=True)
    gains = ", ".join(f"{gain:+.1f} % at batch {batch}" for batch, gain in pairs)
    return f"{gains} ({PUBLISHED['setting']}; {PUBLISHED['source']})."


def describe(timings: Sequence[Timing], sizes: Mapping[str, Sizes]) -> dict[str, Any]:
    """Sizes and times as one JSON-ready object."""
    return {
        "variants": [_size(name, one) for name, one in sizes.items()],
        "latency": [_row(timing) for timing in timings],
        "notes": notes(timings, sizes),
        "published": PUBLISHED,
        "rule": RULE,
    }


def _size(name: str, sizes: Sizes) -> dict[str, Any]:
    memory = sizes.memory
    return {
        "name": name,
        "parameters": sizes.parameters,
        "bytes": sizes.bytes_on_disk,
        "bytes_in_memory": sizes.bytes_in_memory,
        "kv_bytes_per_token": sizes.kv_bytes_per_token,
        "peak_memory_bytes": None if memory is None else memory.peak,
        "memory_before_opening_bytes": None if memory is None else memory.before,
        "gpu_peak_memory_bytes": None if memory is None else memory.device_peak,
    }


def _row(timing: Timing) -> dict[str, Any]:
    spread, change = timing.spread, timing.change
    return {
        "variant": timing.variant,
        "phase": timing.phase,
        "batch": timing.batch,
        "median_seconds": spread.median,
        "low_seconds": spread.low,
        "high_seconds": spread.high,
        "per": "step" if timing.phase == DECODE else "pass",
        "tokens_per_second": timing.per_second,
        "rounds": len(timing.seconds),
        "change": None if change is None else change.value,
        "change_low": None if change is None else change.low,
        "change_high": None if change is None else change.high,
        "within_noise": timing.noise,
        "sentence": timing_sentence(timing),
    }
