"""What a Lens and HeadScores show in a notebook: in a real kernel, well formed, escaped, without scripts."""

from __future__ import annotations

import re
import textwrap
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from headlens.heads import LayerShape, SiteShape, Topology
from headlens.scores import HeadScores
from tests.unit.helpers import build, open_lens

PROGRAM = textwrap.dedent("""
    import sys
    sys.path.insert(0, {root!r})
    from tests.unit.helpers import lens_for
    from tests.unit.importance.test_planted import planted, texts
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.metrics import METRICS
    lens, _ = lens_for("t5")
    scores = score(planted(), METHODS["gradient"], Request(METRICS["loss"], texts()))
    print(repr(lens), repr(scores))
    lens
""")


ALLOWED = {"div", "style", "p", "strong", "svg", "text", "rect", "title"}
ALLOWED |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}


class _Tags(HTMLParser):
    """Collects tags and attributes; refuses tags that are closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(html)
    assert parser.open == []
    return parser.seen


def made(values: np.ndarray, model: str = "tiny", **more: Any) -> HeadScores:
    layers = tuple(
        LayerShape(
            tuple(range(values.shape[1])), values.shape[1], tuple(range(values.shape[1])), 4, values.shape[1], True
        )
        for _ in values
    )
    topology = Topology((SiteShape("self", layers),))
    options: dict[str, Any] = {"n": 5, "unit": "head", "method": "ablation", "metric": "loss", **more}
    return HeadScores(topology, {"self": values}, {"self": np.abs(values) / 10}, provenance={"model": model}, **options)


@pytest.fixture
def scores() -> HeadScores:
    return made(np.array([[0.5, -0.25], [0.125, np.nan], [1.0, 0.0]]))


def test_a_kernel_shows_a_picture_and_a_table() -> None:
    from tests.unit.cli.conftest import ROOT

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(PROGRAM.format(root=str(ROOT))),
        nbformat.v4.new_code_cell("scores"),
    ]
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (printed,) = [one.text for one in notebook.cells[0].outputs if one.get("name") == "stdout"]
    shown_lens, shown_scores = (
        one for cell in notebook.cells for one in cell.outputs if one.output_type == "execute_result"
    )
    assert len(printed) < 400
    for shown, maps, tables in ((shown_lens, 3, 1), (shown_scores, 1, 1)):  # enc, dec, cross; self
        assert shown.data["text/plain"].startswith(("Lens(", "HeadScores("))
        html = shown.data["text/html"]
        assert html.count("<svg") == maps
        assert html.count("<table") == tables


def test_every_head_has_its_square(scores: HeadScores) -> None:
    html = scores._repr_html_()
    svg = ElementTree.fromstring(re.search(r"<svg.*?</svg>", html, re.DOTALL)[0])  # type: ignore[index]
    squares = {rect.find("title").text: rect.attrib for rect in svg.iter("rect")}  # type: ignore[union-attr]
    assert set(squares) == {"L0H0: 0.5", "L0H1: -0.25", "L1H0: 0.125", "L1H1: no score", "L2H0: 1", "L2H1: 0"}
    assert [squares[f"L{n}H0: {value}"]["class"] for n, value in ((0, "0.5"), (2, "1"))] == ["plus", "plus"]
    assert squares["L0H1: -0.25"]["class"] == "minus"
    assert squares["L1H1: no score"]["class"] == "none"
    strength = {text: float(at["fill-opacity"]) for text, at in squares.items()}
    assert strength["L2H0: 1"] == 1.0
    assert strength["L2H0: 1"] > strength["L0H0: 0.5"] > strength["L1H0: 0.125"] > strength["L2H1: 0"] > 0
    places = {(at["x"], at["y"]) for at in squares.values()}
    assert len(places) == 6


def test_the_sentence_and_the_table_hold_the_numbers(scores: HeadScores) -> None:
    html = scores._repr_html_()
    assert "5 heads from 5 examples: the largest score is 1 (L2H0), the smallest -0.25 (L0H1)" in html
    assert "the median 0.125" in html
    assert "1 are below zero" in html
    rows = re.findall(r"<td>(.*?)</td><td class=\"num\">(.*?)</td><td class=\"num\">(.*?)</td>", html)
    assert rows[0] == ("L2H0", "1", "0.1")


def test_nothing_from_outside_becomes_markup_and_nothing_is_fetched() -> None:
    evil = '<script>alert(1)</script><img src=x onerror=alert(2)>"'
    html = made(np.ones((1, 2)), model=evil, no_signal=evil)._repr_html_()
    lens = open_lens(build("gpt2"), "causal-lm", name=evil)
    lens.notes = (evil,)
    for text in (html, lens._repr_html_()):
        found = tags(text)
        assert {tag for tag, _ in found} <= ALLOWED
        assert all(not name.startswith("on") and name not in ("src", "href") for _, given in found for name in given)
        assert "url(" not in text
        assert "&lt;script&gt;" in text


def test_light_and_dark_have_colours_of_their_own(scores: HeadScores) -> None:
    style = re.search(r"<style>(.*?)</style>", scores._repr_html_(), re.DOTALL)[1]  # type: ignore[index]
    for name in ("--ink", "--line", "--none", "--plus", "--minus"):
        colours = re.findall(rf"{name}:(#\w+)", style)
        assert len(set(colours)) == 2, "one for light pages and one for dark ones"
    assert "prefers-color-scheme:dark" in style
    assert "data-jp-theme-light" in style


def test_ranking_noise_is_not_shown_as_a_ranking() -> None:
    html = made(np.ones((2, 2)), no_signal="all scores are equal")._repr_html_()
    assert "No ranking: all scores are equal" in html
    assert "<table" not in html


def test_plain_repr_is_short(scores: HeadScores) -> None:
    assert repr(scores) == "HeadScores(ablation, loss, self 3 x 2, n=5)"
