"""The pure parts of the head grid: scale, number texts, payload, and the check of what the browser sends."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from headlens.ui.components import head_grid as package
from headlens.ui.components.head_grid import GridData, Scale, format_score, robust_scale
from headlens.ui.components.head_grid.component import _SCRIPTS
from headlens.ui.components.head_grid.messages import GridEvent, parse_label, parse_mask, parse_sequence
from headlens.ui.components.head_grid.payload import all_labels, build_payload, ranks, switchable_labels
from headlens.ui.components.head_grid.scale import format_error

UNIT_SCALE = Scale("sequential", 0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "0.0123"),
        (0.5, "0.5000"),
        (-1.23456, "-1.2346"),
        (12.346, "12.35"),
        (1234.5678, "1235"),
        (0.00123456, "0.00123"),
        (-0.000123456, "-0.000123"),
        (0.0000045612, "4.56e-06"),
        (0.0, "0.0000"),
        (-0.0, "0.0000"),
    ],
)
def test_score_text_examples(value: float, text: str) -> None:
    assert format_score(value) == text


def test_score_text_is_a_number_without_comma_close_to_the_value() -> None:
    rng = np.random.default_rng(0)
    for value in rng.normal(size=2000) * 10.0 ** rng.integers(-9, 6, size=2000):
        text = format_score(value)
        assert re.fullmatch(r"-?[0-9.]+(e-[0-9]+)?", text)
        assert math.isclose(float(text), value, rel_tol=5.1e-3), (value, text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_score_text_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        format_score(value)


@pytest.mark.parametrize(
    ("error", "score", "text"),
    [
        (0.0021, "0.0123", "0.0021"),
        (0.000846, "-0.00446", "0.00085"),
        (0.000004, "0.2100", "4.00e-06"),
        (0.0, "0.2100", "0.0000"),
        (2e-7, "4.56e-06", "2.00e-07"),
    ],
)
def test_error_text_has_the_decimals_of_its_score(error: float, score: str, text: str) -> None:
    assert format_error(error, score) == text


def test_diverging_limits_are_symmetric_and_ignore_outliers() -> None:
    scores = np.linspace(-1, 1, 1000).reshape(50, 20)
    scores[0, 0] = 500.0
    scale = robust_scale([scores], "diverging", unit="nats")
    assert scale.low == -scale.high
    assert 0.95 < scale.high <= 1.0
    assert scale.clipped_high
    assert scale.unit == "nats"


def test_sequential_limits_start_at_zero_only_when_scores_do() -> None:
    assert robust_scale([np.linspace(0.001, 1, 100).reshape(10, 10)], "sequential").low == 0
    assert robust_scale([np.linspace(5, 6, 100).reshape(10, 10)], "sequential").low > 4.9
    assert robust_scale([np.linspace(-0.01, 1, 100).reshape(10, 10)], "sequential").low < 0.05


@pytest.mark.parametrize("kind", ["sequential", "diverging"])
@pytest.mark.parametrize(
    "scores",
    [
        np.full((2, 2), np.nan),
        np.zeros((2, 2)),
        np.full((2, 2), 3.0),
        np.full((2, 2), -3.0),
        np.array([[0.0] * 499 + [2.0]]),
        np.array([[np.nan, 0.5]]),
    ],
)
def test_limits_are_ordered_for_degenerate_scores(kind: str, scores: np.ndarray) -> None:
    scale = robust_scale([scores], kind)  # pyright: ignore[reportArgumentType]
    assert math.isfinite(scale.low)
    assert scale.low < scale.high


def test_scale_refuses_limits_without_order_or_zero() -> None:
    with pytest.raises(ValueError, match="low < high"):
        Scale("sequential", 1.0, 1.0)
    with pytest.raises(ValueError, match="low < high"):
        Scale("sequential", 0.0, math.nan)
    with pytest.raises(ValueError, match="low < 0 < high"):
        Scale("diverging", 0.5, 1.0)
    with pytest.raises(ValueError, match="tail"):
        robust_scale([np.zeros((1, 1))], "sequential", tail=0.5)


def test_names_and_labels() -> None:
    assert GridData(np.zeros((4, 8))).name == "Heads"
    assert GridData(np.zeros((4, 8))).label(3, 7) == "L3H7"
    assert GridData(np.zeros((4, 8)), site="enc").name == "Heads enc"
    assert GridData(np.zeros((4, 8)), site="enc").label(3, 7) == "enc.L3H7"
    assert GridData(np.zeros((4, 2)), unit="kv").label(0, 1) == "L0G1"


def test_known_labels_leave_out_what_never_was_and_gone_heads_cannot_be_switched() -> None:
    gone = np.array([[True, False, False], [False, False, True]])
    grid = GridData(np.zeros((2, 3)), heads_per_layer=[3, 2], gone=gone)
    assert all_labels([grid]) == {"L0H0", "L0H1", "L0H2", "L1H0", "L1H1"}
    assert switchable_labels([grid]) == {"L0H1", "L0H2", "L1H0", "L1H1"}


def test_ranks_count_over_all_sites_without_pending_and_gone() -> None:
    enc = GridData(np.array([[0.5, np.nan], [0.1, 9.0]]), site="enc", gone=np.array([[False, False], [False, True]]))
    dec = GridData(np.array([[0.7, 0.5]]), site="dec")
    assert ranks([enc, dec]) == {"dec.L0H0": 1, "enc.L0H0": 2, "dec.L0H1": 2, "enc.L1H0": 4}
    assert ranks([GridData(np.full((1, 2), np.nan))]) == {}


def test_payload_is_plain_json_and_says_what_the_browser_draws() -> None:
    grid = GridData(
        np.array([[0.0123, np.nan], [-0.5, 2.0]]),
        sem=np.array([[0.002, np.nan], [np.nan, 0.1]]),
        gone=np.array([[False, False], [False, True]]),
        roles={"L0H0": "previous token", "L0H1": ""},
    )
    payload = build_payload([grid], off=["L0H1", "L1H1", "L9H9"], ack=4, scale=UNIT_SCALE, pinned="L0H0", height=500)
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload
    (site,) = payload["grids"]
    assert site["text"] == [["0.0123", None], ["-0.5000", "2.0000"]]
    assert site["sem"] == [["0.0020", None], [None, "0.1000"]]
    assert site["gone"] == ["L1H1"]
    assert site["heads"] == [2, 2]
    assert site["rank"] == [[1, None], [2, None]]
    assert site["roles"] == {"L0H0": "previous token"}
    assert payload["off"] == ["L0H1"], "unknown and gone heads are not sent"
    assert (payload["ack"], payload["pinned"], payload["ranked"]) == (4, "L0H0", 2)


def test_payload_of_a_ragged_grid_has_ragged_rows() -> None:
    payload = build_payload(
        [GridData(np.ones((3, 4)), heads_per_layer=[4, 0, 2])], off=(), ack=0, scale=UNIT_SCALE, pinned="L0H9"
    )
    assert [len(row) for row in payload["grids"][0]["text"]] == [4, 0, 2]
    assert payload["grids"][0]["columns"] == 4
    assert payload["pinned"] is None


def test_grids_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        GridData(np.zeros(3))
    with pytest.raises(ValueError, match="sem has shape"):
        GridData(np.zeros((2, 3)), sem=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="heads_per_layer"):
        GridData(np.zeros((2, 3)), heads_per_layer=[3, 4])
    for grids in ([], [GridData(np.zeros((1, 1))), GridData(np.zeros((2, 2)))]):
        with pytest.raises(ValueError, match="different sites"):
            build_payload(grids, off=(), ack=0, scale=UNIT_SCALE)
    with pytest.raises(ValueError, match="ack"):
        build_payload([GridData(np.zeros((1, 1)))], off=(), ack=-1, scale=UNIT_SCALE)


KNOWN = frozenset({"L0H0", "L0H1"})


def test_mask_message_keeps_known_labels_only() -> None:
    message = {"off": ["L0H1", "L7H7", "<script>", "L0H1"], "seq": 3}
    assert parse_mask(message, KNOWN) == GridEvent("mask", off=frozenset({"L0H1"}), ack=3)
    assert parse_mask({"off": [], "seq": 1}, KNOWN) == GridEvent("mask", ack=1)


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "L0H0",
        {},
        {"off": ["L0H0"]},
        {"seq": 1},
        {"off": "L0H0", "seq": 1},
        {"off": {"L0H0": True}, "seq": 1},
        {"off": ["L0H0", 3], "seq": 1},
        {"off": [["L0H0"]], "seq": 1},
        {"off": ["L0H0"], "seq": 0},
        {"off": ["L0H0"], "seq": -1},
        {"off": ["L0H0"], "seq": True},
        {"off": ["L0H0"], "seq": "1"},
        {"off": ["L0H0"], "seq": 1.0},
        {"off": ["L0H0"], "seq": 2**53},
    ],
)
def test_mask_messages_of_another_form_are_refused(message: object) -> None:
    assert parse_mask(message, KNOWN) is None


@pytest.mark.parametrize(
    "message", [None, "L0H0", {}, {"label": None}, {"label": 3}, {"label": "L9H9"}, {"label": ["L0H0"]}]
)
def test_label_messages_of_another_form_are_none(message: object) -> None:
    assert parse_label(message, KNOWN) is None
    assert parse_label({"label": "L0H0"}, KNOWN) == "L0H0"


@pytest.mark.parametrize(
    ("message", "seq"),
    [({"label": None, "seq": 7}, 7), ({"label": "L0H0"}, 0), (None, 0), ({"seq": True}, 0), ({"seq": "7"}, 0)],
)
def test_sequence_of_a_message_is_zero_without_one(message: object, seq: int) -> None:
    assert parse_sequence(message) == seq


def test_the_browser_files_ask_no_other_host_and_export_once() -> None:
    folder = Path(package.__file__).parent
    scripts = {path.name for path in folder.glob("*.js")}
    assert scripts == set(_SCRIPTS)
    everything = "".join((folder / name).read_text(encoding="utf-8") for name in [*_SCRIPTS, "head_grid.css"])
    assert not re.search(r"https?:|//\w+\.\w+|@import|\bimport\b|fetch\(|innerHTML|eval\(", everything)
    assert everything.count("export ") == 1
