"""What the attention view sends to the browser, and what it accepts from there."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from headlens.errors import DataError
from headlens.tokens import TokenLabel
from headlens.ui.components.attention_view import patch_tokens, picture_from_pixels
from headlens.ui.components.attention_view.component import parse_head_event
from headlens.ui.components.attention_view.payload import (
    FULL_BUDGET,
    build_payload,
    encode_weights,
    pool,
    split_label,
)


def decode(text: str, shape: tuple[int, int]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2").reshape(shape) / 65535


def rows_of_one(heads: int, queries: int, keys: int) -> np.ndarray:
    weights = np.random.default_rng(0).random((heads, queries, keys))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def payload(patterns: np.ndarray, **more):
    queries, keys = patterns.shape[-2:]
    heads = patterns.shape[0] if patterns.ndim == 3 else 1
    given_arguments = {
        "query_tokens": [f"q{i}" for i in range(queries)],
        "key_tokens": [f"k{i}" for i in range(keys)],
        "labels": [f"L3H{h}" for h in range(heads)],
        "summary": "A sentence.",
    }
    return build_payload(patterns=patterns, **{**given_arguments, **more})


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(0, 1, width=32)))
def test_sent_weights_round_to_the_array_s_three_digits(pattern: np.ndarray) -> None:
    back = decode(encode_weights(pattern), (3, 4))
    assert np.abs(back - pattern).max() <= 0.5 / 65535 + 1e-9


def test_every_head_is_sent_whole_in_its_own_orientation() -> None:
    patterns = rows_of_one(3, 4, 7)
    sent = payload(patterns, selected="L3H1")
    assert sent["shape"] == [4, 7]
    assert sent["selected"] == 1
    assert sent["small"] == {}
    for head in range(3):
        np.testing.assert_allclose(decode(sent["full"][str(head)], (4, 7)), patterns[head], atol=1e-5)
    json.dumps(sent)


def test_one_pattern_needs_no_head_axis() -> None:
    sent = payload(rows_of_one(1, 4, 7)[0])
    assert list(sent["full"]) == ["0"]


def test_beyond_the_budget_only_the_selected_head_is_whole() -> None:
    side = 400
    patterns = rows_of_one(4, side, side)
    patterns[2] = 0
    patterns[2, :, 0] = 1
    assert patterns.size > FULL_BUDGET
    sent = payload(patterns, selected="L3H1")
    assert list(sent["full"]) == ["1"]
    assert sorted(sent["small"]) == ["0", "2", "3"]
    whole, hidden = sent["small"]["2"]
    assert whole["shape"] == [64, 64]
    thumbnail = decode(whole["data"], (64, 64))
    assert (thumbnail[:, 0] == 1).all()
    assert (thumbnail[:, 1:] == 0).all()
    assert (decode(hidden["data"], (64, 64)) == 0).all()


@given(st.integers(1, 200), st.integers(1, 200))
def test_pooling_keeps_each_block_s_maximum(rows: int, columns: int) -> None:
    pattern = np.random.default_rng(rows * 1000 + columns).random((rows, columns))
    small = pool(pattern)
    assert small.shape == (min(64, rows), min(64, columns))
    assert small.max() == pattern.max()
    best = np.unravel_index(pattern.argmax(), pattern.shape)
    expected = [
        axis if size <= 64 else next(b for b in range(63, -1, -1) if b * size // 64 <= axis)
        for axis, size in zip(best, (rows, columns), strict=True)
    ]
    assert small[tuple(expected)] == pattern.max()


def test_tokens_become_columns() -> None:
    tokens = [TokenLabel("cat", 7, "Ġcat", starts_word=True), TokenLabel("[SEP]", 2, "[SEP]", is_special=True)]
    sent = payload(rows_of_one(1, 2, 3), query_tokens=tokens, key_tokens=["a", "\n", ""])
    assert sent["query"]["text"] == ["cat", "[SEP]"]
    assert (sent["query"]["space"], sent["query"]["special"], sent["query"]["id"]) == ([1, 0], [0, 1], [7, 2])
    assert sent["key"]["text"] == ["a", "⏎", "[empty]"]


def test_patterns_are_not_changed() -> None:
    patterns = rows_of_one(2, 5, 5)
    before = patterns.copy()
    payload(patterns)
    assert (patterns == before).all()


@pytest.mark.parametrize(
    ("patterns", "more", "words"),
    [
        (np.zeros((0, 3, 3)), {}, "no attention patterns"),
        (np.full((1, 2, 2), None), {}, "no attention patterns"),
        (rows_of_one(1, 3, 4), {"query_tokens": list("abcd"), "key_tokens": list("abc")}, r"order is \[head, query"),
        (rows_of_one(2, 3, 4), {"labels": ["L0H0"]}, "do not fit 1 heads"),
        (np.full((1, 2, 2), np.nan), {}, "between 0 and 1"),
        (np.full((1, 2, 2), 3.0), {}, "between 0 and 1"),
        (rows_of_one(1, 2, 2), {"labels": ["head 3"]}, "no head label"),
        (rows_of_one(2, 2, 2), {"labels": ["L0H0", "L0H0"]}, "each once"),
        (rows_of_one(1, 2, 2), {"roles": ["a", "b"]}, "as many roles"),
        (rows_of_one(1, 2, 2), {"view": "cube"}, "does not exist"),
        (rows_of_one(1, 2, 2), {"view": "picture"}, "needs a picture"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(patterns: np.ndarray, more: dict, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        payload(patterns, **more)
    assert "\n" not in str(caught.value)


def test_a_selected_head_that_is_gone_falls_back_to_the_first() -> None:
    assert payload(rows_of_one(2, 2, 2), selected="L3H9")["selected"] == 0


def test_picture_is_the_pixel_array() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    picture = picture_from_pixels(pixels, rows=2, columns=3)
    back = Image.open(io.BytesIO(base64.b64decode(picture.png.removeprefix("data:image/png;base64,"))))
    assert (np.asarray(back) == pixels).all()
    as_floats = picture_from_pixels(pixels / 255, rows=2, columns=3)
    assert as_floats.png == picture.png
    grey = picture_from_pixels(pixels[..., 0], rows=2, columns=3)
    assert grey.png.startswith("data:image/png;base64,")
    with pytest.raises(DataError, match="height, width"):
        picture_from_pixels(pixels.transpose(2, 0, 1), rows=2, columns=3)


def test_patches_must_fit_the_tokens() -> None:
    picture = picture_from_pixels(np.zeros((4, 6)), rows=2, columns=3)
    tokens = patch_tokens(2, 3)
    assert [t.text for t in tokens][:3] == ["[CLS]", "row 1, column 1", "row 1, column 2"]
    sent = payload(rows_of_one(1, 7, 7), view="picture", picture=picture, query_tokens=tokens, key_tokens=tokens)
    assert sent["picture"]["columns"] == 3
    with pytest.raises(DataError, match="2 x 3 patches"):
        payload(rows_of_one(1, 6, 6), picture=picture)


def test_labels_and_layers() -> None:
    assert split_label("cross.L5H13") == ("cross", 5, 13)
    assert split_label("L0H0") == ("", 0, 0)
    assert payload(rows_of_one(2, 2, 2), layers=[4, 3, 2])["layers"] == [2, 3, 4]
    assert payload(rows_of_one(2, 2, 2))["layers"] == [3]


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"label": "L3H1", "seq": 4}, ("L3H1", 4)),
        ({"label": "dec.L2H0", "seq": 0}, ("dec.L2H0", 0)),
        ({"label": "L9H1", "seq": 4}, None),
        ({"label": "<script>", "seq": 4}, None),
        ({"label": "L3H1", "seq": True}, None),
        ({"label": "L3H1", "seq": -1}, None),
        ({"label": 3, "seq": 1}, None),
        ("L3H1", None),
        (None, None),
    ],
)
def test_messages_from_the_browser_are_checked(message: object, event: object) -> None:
    assert parse_head_event(message, [2, 3]) == event
