"""A page with nothing but the attention view and what Python thinks of it; the address chooses what is shown."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any, cast

import numpy as np
import streamlit as st

from headlens.tokens import TokenLabel
from headlens.ui.components.attention_view import (
    Scale,
    View,
    attention_view,
    patch_tokens,
    picture_from_pixels,
)

d = run_path(str(Path(__file__).with_name("stub_data.py")))
st.set_page_config(page_title="Attention view", layout="wide")
query = st.query_params
case, size, heads = query.get("case", "text"), int(query.get("size", 16)), int(query.get("heads", 6))
view: View = cast(View, query.get("view", "map"))
scale: Scale = cast(Scale, query.get("scale", "sqrt"))
state: dict[str, Any] = st.session_state.setdefault("attention", {"layer": 2, "head": 0, "runs": 0, "size": size})
state["runs"] += 1


@st.cache_data(max_entries=20, show_spinner=False)
def layer_patterns(layer: int, count: int, head_count: int) -> np.ndarray:
    return np.stack([d["pattern"](layer, h, count, count) for h in range(head_count)])


def chose(label: str) -> None:
    layer, head = label.removeprefix("L").split("H")
    state["layer"], state["head"] = int(layer), int(head)


def text_view() -> None:
    layer, count = state["layer"], state["size"]
    tokens = [
        TokenLabel(word, 100 + i, word, starts_word=i > 0, note="a remark" if i == 3 else "")
        for i, word in enumerate(d["words"](count))
    ]
    labels = [f"L{layer}H{h}" for h in range(heads)]
    shown = attention_view(
        key="one",
        patterns=layer_patterns(layer, count, heads),
        query_tokens=tokens,
        key_tokens=tokens,
        labels=labels,
        roles=[d["role"](layer, h) for h in range(heads)],
        selected=f"L{layer}H{state['head']}",
        layers=range(4),
        view=view,
        scale=scale,
        causal=True,
        summary=f"Attention of L{layer}H{state['head']} over {count} tokens.",
        note=f"Showing the first {count} of 900 tokens." if count > 256 else "",
        on_head=chose,
    )
    st.text(f"head={shown.head} hide={shown.hide_first}")


def plain_view(key: str, queries: list[str], keys: list[str], **more: Any) -> None:
    attention_view(
        key=key,
        patterns=np.stack([d["pattern"](0, h, len(queries), len(keys), causal=False) for h in range(2)]),
        query_tokens=queries,
        key_tokens=keys,
        labels=["cross.L0H0", "cross.L0H1"],
        summary=f"Attention of {len(queries)} over {len(keys)} tokens.",
        view=view,
        scale=scale,
        **more,
    )


if case == "text":
    text_view()
    if st.button("Longer text"):
        state["size"] += 4
        st.rerun()
    if st.button("Go to L0H1"):
        state["layer"], state["head"] = 0, 1
        st.rerun()
elif case == "cross":
    plain_view("cross", d["words"](5), [f"key{i}" for i in range(9)], query_start=20, key_start=0)
elif case == "nasty":
    plain_view("nasty", d["NASTY"], d["NASTY"])
elif case == "two":
    plain_view("left", d["words"](6), d["words"](6))
    plain_view("right", d["words"](8), d["words"](8))
elif case == "picture":
    rows, columns = 8, 8
    attention_view(
        key="picture",
        patterns=np.stack([d["patches"](rows, columns, h) for h in range(3)]),
        query_tokens=patch_tokens(rows, columns),
        key_tokens=patch_tokens(rows, columns),
        labels=["L1H0", "L1H1", "L1H2"],
        roles=["near patches"] * 3,
        summary="Attention of L1H0 over 64 patches.",
        view=cast(View, query.get("view", "picture")),
        scale=scale,
        picture=picture_from_pixels(d["scene"](), rows=rows, columns=columns),
    )
st.text(f"runs={state['runs']}")
