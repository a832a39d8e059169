"""The sidebar that every page draws: where am I, which model, which text, which score, what is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.ui import cache, state

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

PAGES = (
    ("app.py", "Heads", ":material/grid_view:"),
    ("pages/attention.py", "Attention", ":material/visibility:"),
    ("pages/switchboard.py", "Switchboard", ":material/toggle_on:"),
)
MAX_TEXT = 50_000
MAX_TOKENS = 128

METHOD_LINES = {
    "ablation": "Exact: what the loss does when one head is off. Slowest, and the reference.",
    "gradient": "First-order estimate for all heads in one backward pass (Michel et al.).",
    "magnitude": "Size of the head's output weights. Needs no text, and often says little.",
    "magnitude-ov": "Size of the head's read-to-write map. Needs no text.",
    "output-norm": "How much the head writes into the residual stream, on average.",
    "fisher": "Mean squared gradient of the head's gate.",
    "confidence": "Average of the head's largest attention weight (Voita et al.).",
    "random": "A control that knows nothing: what any ranking has to beat.",
}
ABLATION_LINES = {
    "zero": "An off head writes nothing. Simple, but far from what later layers expect.",
    "mean": "An off head always writes its average: removes information, keeps the constant part.",
    "resample": "An off head writes what it wrote for another text: realistic values, wrong content.",
}
UNIT_LINES = {
    "head": "Each query head by itself; shared keys and values stay.",
    "kv": "All query heads that share one key/value head go together.",
}


@dataclass(frozen=True)
class Chosen:
    """What the sidebar gives a page: the opened model and the encoded score half of the chosen text."""

    lens: Lens
    data: EncodedData
    method: str
    ablation: str
    unit: str
    metric: str


def sidebar(page: str) -> Chosen | None:
    """Draws the sidebar and opens what was chosen; None when that is not possible (the page shows why)."""
    state.adopt_url(page)
    with st.sidebar:
        st.markdown("**HeadLens** · which heads matter?")
        for path, title, icon in PAGES:
            st.page_link(path, label=title, icon=icon)
        name = _model_picker()
    lens = _open(name)
    if lens is None:
        state.publish_url()
        return None
    with st.sidebar:
        chosen = _choices(lens)
        _switch_summary(lens)
    state.show_notices()
    return chosen


def _model_picker() -> str:
    from headlens.models.catalogue import entries

    ready = {entry.name: entry.title for entry in entries() if entry.available}
    current = state.get("model")
    groups = ("Ready offline", "From the hub or a folder")
    group = st.session_state.setdefault("hl_model_group", groups[0 if current in ready else 1])
    if current not in ready:
        group = groups[1]
    state.fill("_model_group", group)
    st.radio(
        "Where the model comes from",
        groups,
        key="_model_group",
        horizontal=True,
        label_visibility="collapsed",
        on_change=lambda: st.session_state.update(hl_model_group=st.session_state["_model_group"]),
    )
    if group == groups[0] and ready:
        state.fill("_model_ready", current)
        st.selectbox(
            "Model",
            list(ready),
            format_func=lambda option: ready[option],
            key="_model_ready",
            on_change=_choose_model,
            args=("_model_ready",),
        )
    else:
        state.fill("_model_typed", "" if current in ready else current)
        st.text_input(
            "Hub id, or folder with config.json and safetensors",
            key="_model_typed",
            placeholder="Qwen/Qwen3-0.6B or ./my-model",
            on_change=_choose_model,
            args=("_model_typed",),
        )
    return current


def _choose_model(key: str) -> None:
    from headlens.models.catalogue import find

    chosen = (st.session_state.get(key) or "").strip()
    if chosen and chosen != state.get("model"):
        entry = find(chosen)
        st.session_state["hl_model_group"] = (
            "Ready offline" if entry is not None and entry.available else "From the hub or a folder"
        )
        state.put("model", chosen)
        state.put("data", "")
        state.forget_switches()


def _open(name: str) -> Lens | None:
    try:
        with st.spinner(f"Opening {name} (the packaged SmolLM2 is converted once, about half a minute)"):
            return cache.open_lens(name)
    except HeadlensError as error:
        st.error(str(error), icon=":material/error:")
        st.caption("Choose another model in the sidebar. Nothing was lost: your switches and results are kept.")
        return None


def _choices(lens: Lens) -> Chosen | None:
    data = _data_picker(lens)
    method = _select("method", "Score by", METHOD_LINES)
    ablation = _select("ablation", "An off head writes", ABLATION_LINES)
    grouped = any(layer.kv_heads < len(layer.heads) for site in lens.topology.sites for layer in site.layers)
    unit = "head"
    if grouped:
        unit = _select("unit", "Score each", UNIT_LINES)
    if data is None:
        return None
    metric = "drift" if lens.task == "embedding" else "loss"
    return Chosen(lens, data, method, ablation, unit, metric)


def _select(name: str, label: str, lines: dict[str, str]) -> str:
    """A select box for one parameter, with a line that explains what is chosen."""
    current = state.get(name) if state.get(name) in lines else next(iter(lines))
    key = f"_{name}"
    state.fill(key, current)
    st.selectbox(label, list(lines), key=key, on_change=lambda: state.put(name, st.session_state[key]))
    st.caption(lines[current])
    return current


def _data_picker(lens: Lens) -> EncodedData | None:
    from headlens.data.builtin import index
    from headlens.data.dataset import KINDS

    sets = [entry.name for entry in index() if entry.task in KINDS.get(lens.task, ())]
    options = [*sets, state.OWN_DATA]
    current = state.get("data")
    if current not in options:
        current = options[0]
        state.put("data", current)
    state.fill("_data", current)
    st.selectbox("Measured on", options, key="_data", on_change=lambda: state.put("data", st.session_state["_data"]))
    try:
        data = _own_data(lens) if current == state.OWN_DATA else _built_in(lens, current)
        if data is None:
            return None
        return encode_for(lens, data)
    except HeadlensError as error:
        st.error(str(error), icon=":material/error:")
        return None


def _built_in(lens: Lens, name: str) -> DataSet:
    from headlens.data.select import load_data

    return load_data(name, task=lens.task, split="score")


def _own_data(lens: Lens) -> DataSet | None:
    from headlens.ui.own_data import own_data

    return own_data(lens)


def encode_for(lens: Lens, data: DataSet) -> EncodedData:
    """Tokenised examples, shared by all sessions that chose the same text and model."""
    import hashlib

    digest = hashlib.sha256(repr(data.examples).encode()).hexdigest()
    return cache.encoded(lens.name, lens, data, lens.fingerprint, digest + data.split, MAX_TOKENS)


def _switch_summary(lens: Lens) -> None:
    off = state.off_heads(lens.topology)
    total = len(lens.topology.heads())
    st.markdown(f"**{len(off)} of {total} heads off**")
    st.button(
        "Switch all on",
        key="all_on",
        disabled=not len(off),
        icon=":material/restart_alt:",
        on_click=lambda: state.put("off", "none"),
    )
