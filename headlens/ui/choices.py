"""What the sidebar asks: on which text, by which score, and what an off head writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.errors import HeadlensError
from headlens.ui import cache, state, words
from headlens.ui.methods import METHOD_WORDS
from headlens.ui.own_data import own_data

if TYPE_CHECKING:
    from headlens.data.builtin import SetInfo
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

MAX_TOKENS = 128
ABLATION_TITLES = {
    "zero": "nothing (zero)",
    "mean": "its average (mean)",
    "resample": "what it wrote for another text (resample)",
}
ABLATION_LINES = {
    "zero": "Simple, but far from what later layers expect.",
    "mean": "Takes the information away and keeps the constant part.",
    "resample": "Realistic values with the wrong content; drawn by a seed.",
}
UNIT_TITLES = {"head": "query head", "kv": "key/value group"}
UNIT_LINES = {
    "head": "Each query head by itself; shared keys and values stay.",
    "kv": "All query heads that share one key/value head go together.",
}


@dataclass(frozen=True)
class Chosen:
    """What the sidebar gives a page.

    Attributes:
        lens: the opened model.
        data: the encoded score half of the chosen text, or the user's own text whole.
        method, ablation, unit, metric: see the contract.
        status: places in the sidebar that follow the switches (see :func:`headlens.ui.sidebar.refresh`).
    """

    lens: Lens
    data: EncodedData
    method: str
    ablation: str
    unit: str
    metric: str
    status: Any = None


def choices(lens: Lens) -> Chosen | None:
    """Draws the choices; None where the model has no text that it could be measured on."""
    from headlens.importance import METHODS

    data = _data_picker(lens)
    lines = {name: METHOD_WORDS[name].line for name in METHODS}
    method = _select("method", "Score heads by", lines, {name: METHODS[name].title for name in METHODS})
    ablation = _select("ablation", "A head that is off writes", ABLATION_LINES, ABLATION_TITLES)
    grouped = any(layer.kv_heads < len(layer.heads) for site in lens.topology.sites for layer in site.layers)
    unit = _select("unit", "Score each", UNIT_LINES, UNIT_TITLES) if grouped else "head"
    if data is None:
        return None
    return Chosen(lens, data, method, ablation, unit, "drift" if lens.task == "embedding" else "loss")


def _select(name: str, label: str, lines: dict[str, str], titles: dict[str, str]) -> str:
    """A select box for one parameter, with a line that explains what is chosen."""
    current = state.get(name) if state.get(name) in lines else next(iter(lines))
    key = f"_{name}"
    state.fill(key, current)
    st.selectbox(
        label,
        list(lines),
        key=key,
        format_func=lambda option: titles[option],
        on_change=lambda: state.put(name, st.session_state[key]),
    )
    st.caption(lines[current])
    return current


def _data_picker(lens: Lens) -> EncodedData | None:
    from headlens.data.builtin import index
    from headlens.data.select import default_for

    sets = {entry.name: entry for entry in index() if lens.task in entry.tasks}
    try:  # the model's own set first
        first = default_for(lens)
        sets = {first: sets[first], **sets}
    except HeadlensError:  # no built-in set suits this model
        sets = {}
    options = [*sets, state.OWN_DATA]
    current = state.get("data")
    if current not in options:
        current = options[0]
        state.put("data", current)
    state.fill("_data", current)
    st.selectbox(
        "Measured on",
        options,
        key="_data",
        format_func=lambda name: _set_title(sets[name]) if name in sets else "Your own text",
        on_change=lambda: state.put("data", st.session_state["_data"]),
    )
    try:
        if current in sets:
            st.caption(sets[current].description)
            return encode_for(lens, _built_in(lens, current))
        own = own_data(lens)
        if own is not None:
            return encode_for(lens, own)
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
    if not sets:
        return None
    fallback = next(iter(sets))
    st.caption(f"Until there is a text of yours, figures are measured on {sets[fallback].title}.")
    return encode_for(lens, _built_in(lens, fallback))


def _set_title(entry: SetInfo) -> str:
    return f"{entry.title} ({entry.language})" if entry.language else entry.title


def _built_in(lens: Lens, name: str) -> DataSet:
    from headlens.data.select import load_data

    return load_data(name, task=lens.task, split="score")


def encode_for(lens: Lens, data: DataSet) -> EncodedData:
    """Tokenised examples, shared by all sessions that chose the same text and model."""
    import hashlib

    digest = hashlib.sha256(repr(data.examples).encode()).hexdigest()
    return cache.encoded(lens.name, lens, data, lens.fingerprint, digest + data.split, MAX_TOKENS)
