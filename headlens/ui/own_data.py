"""A user's own text or file in the sidebar. It stays in the session: never in the URL, never kept on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from headlens.data.dataset import DataSet, Example
from headlens.errors import DataError
from headlens.server import limits
from headlens.ui import state, words

if TYPE_CHECKING:
    from headlens.lens import Lens

TYPES = ("txt", "jsonl", "csv", "tsv", "parquet")
NEEDED = {
    "causal-lm": "a column text, or a .txt file with one example a line",
    "masked-lm": "a column text, or a .txt file with one example a line",
    "embedding": "a column text, or a .txt file with one example a line",
    "seq2seq": "the columns source and target",
    "text-classification": "the columns text (and text_pair) and label",
}
"""What a file must have, by task."""


def own_data(lens: Lens) -> DataSet | None:
    """Examples typed or uploaded by the user, or None while there are none.

    Raises:
        DataError: a file that cannot be used; one line that names it as the user does.
    """
    if lens.task not in NEEDED:
        st.caption("Examples for this kind of model cannot be uploaded here; use --data on the command line.")
        return None
    kept: tuple[str, bytes] | None = st.session_state.get("hl_own_file")
    if kept is not None:
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.caption(f"File: {words.plain(kept[0])} ({len(kept[1]) / 1000:,.1f} kB)")
        right.button("Remove", key="_upload_remove", on_click=_forget_file)
        return read_upload(*kept)
    st.file_uploader(
        f"A file with {NEEDED[lens.task]}",
        type=list(TYPES),
        key=_uploader_key(),
        max_upload_size=limits.current().upload_mb,
        help=f"{', '.join(TYPES)}; at most {limits.current().upload_text}. Read for your visit only, and not kept.",
        on_change=_take_file,
    )
    return _typed() if lens.task in ("causal-lm", "masked-lm", "embedding") else None


def _typed() -> DataSet | None:
    st.text_area(
        "or type: one example a line",
        value=state.fill_text("_own_text", state.remember("own_text", "")),
        key="_own_text",
        max_chars=limits.current().text_characters,
        height=140,
        on_change=lambda: st.session_state.update(hl_own_text=st.session_state["_own_text"] or ""),
    )
    allowed = limits.current().text_characters
    limits.current().check_size("your text", len(st.session_state["hl_own_text"]), allowed, "characters")
    lines = tuple(Example(text=line.strip()) for line in st.session_state["hl_own_text"].splitlines() if line.strip())
    return DataSet("your own text", "text", "all", lines) if lines else None


def _uploader_key() -> str:
    """A new widget after each removal, since an uploader keeps what it was given."""
    return f"_upload_{st.session_state.get('hl_uploads', 0)}"


def _take_file() -> None:
    uploaded = st.session_state.get(_uploader_key())
    if uploaded is not None:
        st.session_state["hl_own_file"] = (uploaded.name, uploaded.getvalue())


def _forget_file() -> None:
    st.session_state.pop("hl_own_file", None)
    st.session_state["hl_uploads"] = st.session_state.get("hl_uploads", 0) + 1


def read_upload(name: str, content: bytes) -> DataSet:
    """The examples of an uploaded file; raises DataError or LimitError with one line."""
    from headlens.data.readers import read_file

    ending = Path(name).suffix.lower()
    if ending.removeprefix(".") not in TYPES:
        raise DataError(f"{name[:80]}: files of this type are not read; take one of {', '.join(TYPES)}")
    limits.current().check_upload(name, len(content))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"upload{ending}"
        path.write_bytes(content)
        try:
            data = read_file(path)
        except DataError as error:
            raise DataError(str(error).replace(str(path), name[:80])) from error
    if data.kind == "images":
        raise DataError(f"{name[:80]}: pictures cannot be uploaded as a table; use --data on the command line")
    return DataSet("your own file", data.kind, "all", data.examples)
