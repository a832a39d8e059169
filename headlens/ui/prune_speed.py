"""Speed and size of full, masked and cut model, measured side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.ui import background, cache, inputs, words
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.ui.choices import Chosen
    from headlens.ui.prune_cut import Made

EFFORTS = {"quick": ((1, 4), 5), "thorough": ((1, 4, 16), 10)}
"""Batch sizes and rounds."""
LINES = {
    "quick": "Batch sizes 1 and 4, 5 interleaved rounds.",
    "thorough": "Batch sizes 1, 4 and 16, 10 interleaved rounds: takes several times as long.",
}


def section(chosen: Chosen, made: Made | None) -> None:
    """Draws the button, the work and the table."""
    if made is None:
        st.caption("Cut heads out first; then full, masked and cut model are timed side by side.")
        return
    current = inputs.choice("Effort", "speed_effort", {name: name for name in EFFORTS})
    st.caption(LINES[current] + " Other work of this server disturbs the times, so let it finish first.")
    key = ("speed", chosen.lens.fingerprint, str(made.folder), current)
    if not background.is_shown("speed", key):
        st.button(
            "Measure speed",
            key="speed_start",
            icon=":material/speed:",
            on_click=lambda: background.start("speed", key, "Timing", _work(chosen, made, current)),
        )
        return
    job = background.finished("speed", key)
    if job is not None:
        draw(job.result)


def _work(chosen: Chosen, made: Made, effort: str) -> Any:
    def work(job: Job) -> dict[str, Any]:
        from headlens.pruning.benchmark import BenchmarkSpec, measure, sizes, variants
        from headlens.pruning.benchmark_notes import describe

        batches, repeats = EFFORTS[effort]
        found = variants(chosen.lens, cache.open_lens(str(made.folder)))
        timings = measure(found, BenchmarkSpec(batches, repeats), on_progress=job.progress)
        on_disk = {"full": made.facts["bytes_before"], "cut": made.facts["bytes_after"]}
        measured = {
            one.name: sizes(one, bytes_on_disk=on_disk.get(one.name)) for one in found if one.name != "full again"
        }
        return describe(timings, measured)

    return work


def draw(found: dict[str, Any]) -> None:
    """Two tables and what they say."""
    import pandas as pd

    rows = [
        {
            "model": one["name"],
            "parameters": f"{one['parameters']:,}",
            "weights in memory": _mega(one["bytes_in_memory"]),
            "weight files": _mega(one["bytes"]),
            "KV cache a token": "–" if one["kv_bytes_per_token"] is None else f"{one['kv_bytes_per_token']:,} bytes",
        }
        for one in found["variants"]
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.dataframe(pd.DataFrame([_row(one) for one in found["latency"]]), hide_index=True, width="stretch")
    for note in found["notes"]:
        st.markdown("- " + words.plain(note))
    st.caption(words.plain(found["rule"].capitalize() + "."))


def _row(one: dict[str, Any]) -> dict[str, str]:
    change, word = "", ""
    if one["change"] is not None:
        change = f"{100 * one['change']:+.1f} % ({100 * one['change_low']:+.1f} to {100 * one['change_high']:+.1f})"
        word = {None: "the noise itself", True: "within noise"}.get(
            one["within_noise"], "faster" if one["change"] < 0 else "slower"
        )
    return {
        "phase": one["phase"],
        "batch": str(one["batch"]),
        "model": one["variant"],
        "median, ms": f"{1e3 * one['median_seconds']:.4g}",
        "quartiles, ms": f"{1e3 * one['low_seconds']:.4g} to {1e3 * one['high_seconds']:.4g}",
        "tokens/s": f"{one['tokens_per_second']:,.0f}",
        "change (95 % interval)": change,
        "verdict": word,
    }


def _mega(number: int | None) -> str:
    return "–" if number is None else f"{number / 1e6:,.1f} MB"
