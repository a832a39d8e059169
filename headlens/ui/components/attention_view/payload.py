"""What the attention view's browser side is sent: plain values, made here without Streamlit.

Weights travel as 16-bit integers (weight x 65535, error at most 8e-6), so that three digits read in the browser are the
array's. All heads are sent whole while they fit into ``FULL_BUDGET`` cells; beyond that the selected head is sent whole
and the others as thumbnails.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from headlens.errors import DataError
from headlens.tokens import TokenLabel, visible

View = Literal["map", "lines", "picture"]
Scale = Literal["sqrt", "row", "linear"]

FULL_BUDGET = 600_000
"""Cells sent at full size: 9 heads of 256 x 256, 1.2 MB before base64."""
THUMBNAIL_SIDE = 64
_LEVELS = 65535
_LABEL = re.compile(r"(?:(?P<site>[a-z]+)\.)?L(?P<layer>\d+)H(?P<head>\d+)")


@dataclass(frozen=True)
class Picture:
    """The picture behind a vision model's patches.

    Attributes:
        png: A ``data:image/png;base64,...`` address made by ``picture_from_pixels``.
        rows, columns: The patch grid.
        prefix: Number of tokens before the patches (1 for ``[CLS]``, more with register or distillation tokens).
    """

    png: str
    rows: int
    columns: int
    prefix: int = 1


def picture_from_pixels(pixels: np.ndarray, *, rows: int, columns: int, prefix: int = 1) -> Picture:
    """Turn pixels [height, width] or [height, width, 3] into a Picture.

    Args:
        pixels: uint8 in 0..255, or floats in 0..1 (values outside are clipped).
        rows: Patch rows.
        columns: Patch columns.
        prefix: Tokens before the first patch.

    Raises:
        DataError: If the array is no picture.
    """
    array = np.asarray(pixels)
    if array.ndim not in (2, 3) or array.size == 0 or (array.ndim == 3 and array.shape[2] != 3):
        raise DataError(f"a picture needs the shape [height, width] or [height, width, 3], not {list(array.shape)}")
    if array.dtype != np.uint8:
        array = np.round(np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1) * 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array)).save(out, "PNG")
    return Picture("data:image/png;base64," + base64.b64encode(out.getvalue()).decode(), rows, columns, prefix)


def patch_tokens(rows: int, columns: int, prefix: Sequence[str] = ("[CLS]",)) -> list[TokenLabel]:
    """Labels [prefix + rows * columns] of a vision model's tokens; rows and columns count from 1."""
    names = [(name, True) for name in prefix]
    names += [(f"row {r + 1}, column {c + 1}", False) for r in range(rows) for c in range(columns)]
    return [TokenLabel(name, i, name, is_special=special) for i, (name, special) in enumerate(names)]


def split_label(label: str) -> tuple[str, int, int]:
    """Site ("" where not named), layer and head of ``L3H7`` or ``cross.L3H7``.

    Raises:
        DataError: If the text is no head label.
    """
    match = _LABEL.fullmatch(label)
    if match is None:
        raise DataError(f"{label!r} is no head label; a label looks like L3H7 or cross.L3H7")
    return match["site"] or "", int(match["layer"]), int(match["head"])


def encode_weights(pattern: np.ndarray) -> str:
    """Base64 of weights [query, key] in 0..1 as little-endian uint16, row by row."""
    return base64.b64encode(np.round(pattern.astype(np.float64) * _LEVELS).astype("<u2").tobytes()).decode()


def pool(pattern: np.ndarray, side: int = THUMBNAIL_SIDE) -> np.ndarray:
    """Shrink [query, key] to at most [side, side] by the maximum of each block, so that thin stripes stay visible."""
    for axis in (0, 1):
        size = pattern.shape[axis]
        if size > side:
            starts = np.floor(np.arange(side) * size / side).astype(int)
            pattern = np.maximum.reduceat(pattern, starts, axis=axis)
    return pattern


def checked_patterns(patterns: np.ndarray, queries: int, keys: int, heads: int) -> np.ndarray:
    """The patterns as float32 [head, query, key].

    Raises:
        DataError: If there are none, their shape does not fit the tokens and labels, or a value is no weight in 0..1.
    """
    array = np.asarray(patterns)
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise DataError("there are no attention patterns to show; run the model with attention patterns asked for")
    if array.ndim == 2:
        array = array[None]
    if array.shape != (heads, queries, keys):
        raise DataError(
            f"attention patterns of shape {list(array.shape)} do not fit {heads} heads, {queries} query tokens and"
            f" {keys} key tokens; the order is [head, query, key]"
        )
    array = array.astype(np.float32)
    if not np.isfinite(array).all() or array.min() < -1e-4 or array.max() > 1 + 1e-4:
        raise DataError("attention weights must lie between 0 and 1; these are not post-softmax patterns")
    return np.clip(array, 0, 1)


def token_columns(tokens: Sequence[TokenLabel | str]) -> dict[str, list[Any]]:
    """Tokens as parallel lists ``text, space, id, special, note``; a plain string has no id."""
    labels = [TokenLabel(visible(t) or "[empty]", -1, t) if isinstance(t, str) else t for t in tokens]
    return {
        "text": [t.text for t in labels],
        "space": [int(t.starts_word) for t in labels],
        "id": [t.id for t in labels],
        "special": [int(t.is_special) for t in labels],
        "note": [t.note for t in labels],
    }


def _weights(patterns: np.ndarray, selected: int) -> dict[str, dict[str, Any]]:
    """``full`` and ``small`` weights by head index: as many heads whole as fit, the selected one always."""
    all_fit = patterns.size <= FULL_BUDGET
    out: dict[str, dict[str, Any]] = {"full": {}, "small": {}}
    for index, pattern in enumerate(patterns):
        if all_fit or index == selected:
            out["full"][str(index)] = encode_weights(pattern)
        else:
            without_first = pool(pattern[:, 1:]) if pattern.shape[1] > 1 else np.zeros_like(pattern)
            out["small"][str(index)] = [
                {"shape": list(small.shape), "data": encode_weights(small)} for small in (pool(pattern), without_first)
            ]
    return out


def build_payload(
    *,
    patterns: np.ndarray,
    query_tokens: Sequence[TokenLabel | str],
    key_tokens: Sequence[TokenLabel | str],
    labels: Sequence[str],
    summary: str,
    view: View = "map",
    roles: Sequence[str] | None = None,
    selected: str | None = None,
    layers: Sequence[int] = (),
    scale: Scale = "sqrt",
    causal: bool = False,
    query_start: int = 0,
    key_start: int = 0,
    note: str = "",
    picture: Picture | None = None,
    hide_first: bool = False,
    ack: int = 0,
) -> dict[str, Any]:
    """Everything the browser needs to draw; the arguments are those of ``attention_view``.

    Raises:
        DataError: If patterns, tokens, labels or picture do not fit together.
    """
    roles = [""] * len(labels) if roles is None else list(roles)
    if len(roles) != len(labels) or len(set(labels)) != len(labels):
        raise DataError(f"{len(labels)} head labels (each once) need as many roles, not {len(roles)}")
    if view not in get_args(View) or scale not in get_args(Scale):
        raise DataError(f"view {view!r} with scale {scale!r} does not exist; use {get_args(View)}, {get_args(Scale)}")
    array = checked_patterns(patterns, len(query_tokens), len(key_tokens), len(labels))
    if (view == "picture") and picture is None:
        raise DataError("the picture view needs a picture; make one with picture_from_pixels")
    if picture is not None and {picture.prefix + picture.rows * picture.columns} != set(array.shape[1:]):
        raise DataError(
            f"{picture.rows} x {picture.columns} patches and {picture.prefix} tokens before them do not fit"
            f" {array.shape[1]} query and {array.shape[2]} key tokens"
        )
    index = labels.index(selected) if selected in labels else 0
    places = [split_label(label) for label in labels]
    return {
        "summary": summary,
        "view": view,
        "heads": [
            {"label": label, "site": site, "layer": layer, "head": head, "role": role}
            for label, role, (site, layer, head) in zip(labels, roles, places, strict=True)
        ],
        "selected": index,
        "layers": sorted(set(layers) or {layer for _, layer, _ in places}),
        "shape": list(array.shape[1:]),
        "query": token_columns(query_tokens),
        "key": token_columns(key_tokens),
        "start": [query_start, key_start],
        "causal": causal,
        "scale": scale,
        "note": note,
        "hide_first": hide_first,
        "picture": None if picture is None else vars(picture),
        "ack": ack,
        **_weights(array, index),
    }
