"""A page with nothing but the head grid and what Python thinks of it; query parameters choose the model's shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from headlens.ui.components.head_grid import GridData, GridEvent, Mode, Scale, head_grid, robust_scale

st.set_page_config(page_title="Head grid", layout="wide")
shape = st.query_params.get("shape", "30x9")
kind = st.query_params.get("kind", "diverging")
mode: Mode = "switch" if st.query_params.get("mode") == "switch" else "map"
height = int(st.query_params.get("height", 0)) or None
if "grid" not in st.session_state:
    st.session_state["grid"] = {"off": frozenset(), "ack": 0, "events": 0, "hidden": 0, "runs": 0, "pin": None}
state: dict[str, Any] = st.session_state["grid"]


def fake(layers: int, heads: int, seed: int) -> np.ndarray:
    """Scores like real ones: many near zero, few large, some negative."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(2.5, (layers, heads)) * 0.004 + rng.gamma(0.6, 0.006, (layers, heads))
    scores[0, heads // 2] = 0.21
    return np.abs(scores) if kind == "sequential" else scores


def make_grids() -> list[GridData]:
    """Grids of the shape that the address asks for; the first ``hidden`` scores (in a fixed random order) are NaN."""
    if shape == "ragged":
        gone = np.zeros((6, 8), bool)
        gone[1, 2:6] = True
        gone[4, :] = True
        return [
            GridData(fake(6, 8, 1), site="enc", gone=gone),
            GridData(fake(6, 8, 2), site="dec", heads_per_layer=[8, 6, 8, 3, 8, 8]),
            GridData(fake(6, 8, 3), site="cross"),
        ]
    if shape == "kv":
        return [GridData(fake(30, 3, 1), unit="kv")]
    layers, heads = (int(n) for n in shape.split("x"))
    scores = fake(layers, heads, 0)
    order = np.random.default_rng(9).permutation(scores.size)
    scores.ravel()[order[: state["hidden"]]] = np.nan
    roles = {"L3H7": "previous token", "L0H1": "copies a repeated sequence"}
    return [GridData(scores, sem=np.abs(scores) * 0.1 + 0.0004, roles=roles)]


def on_change(event: GridEvent) -> None:
    """Keep what the browser tells."""
    state["events"] += 1
    if event.kind == "mask":
        state["off"], state["ack"] = event.off, event.ack
    elif event.kind == "pinned":
        state["pin"] = event.label


def write(off: list[str]) -> None:
    """Switch from Python."""
    state["off"] = frozenset(off)


def start_stream() -> None:
    """Hide all scores; the fragment shows them again bit by bit."""
    state["hidden"] = 10_000


def reset_session() -> None:
    """As after a restart of the server: Python knows nothing, the browser's elements are still there."""
    state["off"], state["ack"] = frozenset(), 0


with st.container(horizontal=True):
    st.button("Reset", on_click=write, args=([],))
    st.button("Preset", on_click=write, args=(["L0H0", "L1H1", "L2H2"],))
    st.button("Stream", on_click=start_stream)
    st.button("Forget", on_click=reset_session)
    st.button("Unpin", on_click=lambda: state.update(pin=None))
    st.button("Nothing")


@st.fragment(run_every=0.15 if state["hidden"] else None)
def panel() -> None:
    """The grid and Python's view of it."""
    state["runs"] += 1
    grids = make_grids()
    scale: Scale = robust_scale(
        [g.scores for g in grids], "sequential" if kind == "sequential" else "diverging", unit="nats"
    )
    view = head_grid(
        key="heads",
        grids=grids,
        off=state["off"],
        ack=state["ack"],
        scale=scale,
        on_change=on_change,
        mode=mode,
        height=height,
        pinned=state["pin"],
    )
    st.text(f"off={len(state['off'])} [{' '.join(sorted(state['off']))}]")
    st.text(f"active={view.active} pinned={view.pinned}")
    st.text(f"hidden={state['hidden']} events={state['events']}")
    if state["hidden"]:
        total = grids[0].scores.size
        state["hidden"] = max(0, min(state["hidden"], total) - max(1, total // 20))
        if not state["hidden"]:
            st.rerun()


panel()
