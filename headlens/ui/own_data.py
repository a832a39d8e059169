"""A user's own text or file in the sidebar. It stays in this session: never in the URL, never on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from headlens.data.dataset import DataSet, Example

if TYPE_CHECKING:
    from headlens.lens import Lens

MAX_TEXT = 50_000
TYPES = ("txt", "jsonl", "csv", "tsv", "parquet")


def own_data(lens: Lens) -> DataSet | None:
    """Examples typed or uploaded by the user, or None while there are none."""
    uploaded = st.file_uploader(
        "A file (.txt: one example a line)", type=list(TYPES), key="_upload", help="At most 5 MB; read here, not kept."
    )
    if uploaded is not None:
        return _read_upload(uploaded.name, uploaded.getvalue())
    if lens.task not in ("causal-lm", "masked-lm", "embedding"):
        st.caption("This model needs labelled examples or pairs: upload a file with the columns that its task needs.")
        return None
    text = st.text_area(
        "or type: one example a line",
        value=st.session_state.get("hl_own_text", ""),
        key="_own_text",
        max_chars=MAX_TEXT,
        height=140,
        on_change=lambda: st.session_state.update(hl_own_text=st.session_state["_own_text"]),
    )
    lines = tuple(Example(text=line.strip()) for line in (text or "").splitlines() if line.strip())
    if not lines:
        st.caption("Nothing typed yet.")
        return None
    return DataSet("your own text", "text", "all", lines)


def _read_upload(name: str, content: bytes) -> DataSet:
    from headlens.data.readers import read_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{Path(name).suffix.lower()}"
        path.write_bytes(content)
        data = read_file(path)
    return DataSet("your own file", data.kind, "all", data.examples)
