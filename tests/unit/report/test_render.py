"""The page: whole, safe, self-contained, and with the numbers in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headlens.data.select import load_data
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from headlens.pruning.benchmark import BenchmarkSpec
from headlens.report.make import Report, ReportSpec, make
from headlens.report.models import Subjects
from headlens.report.render import number, percent, render, signed, size

EVIL = "<script>alert('x')</script> ant </pre><img src=http://evil.example/x onerror=alert(1)> {{ 7 * 7 }} & bee"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that every tag is closed, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report(subjects: Subjects, text: Path) -> Report:
    """With everything in it."""
    method = METHODS["magnitude"]
    scores = score(subjects.full.lens, method, Request(METRICS["loss"]))
    spec = ReportSpec(
        title="A <b>bold</b> title",
        prompts=(EVIL,),
        new_tokens=4,
        benchmark=BenchmarkSpec((1,), 3, 8, 2),
        command="headlens report 'a <b>' --out r.html",
    )
    data = load_data(str(text), task="causal-lm", split="held-out")
    return make(subjects, data, spec, scores=scores, method=method)


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    """The page."""
    return render(report)


def test_it_is_one_whole_page_with_an_outline(html: str) -> None:
    assert html.lstrip().startswith("<!DOCTYPE html>")
    page = Page(html)
    names = [tag for tag, _ in page.tags]
    assert names.count("h1") == 1
    assert [tag for tag in names if tag == "main"] == ["main"]
    assert len(page.ids) == len(set(page.ids))
    for tag, attributes in page.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            for reference in (attributes.get(name) or "").split():
                assert reference in page.ids, (tag, reference)
    figures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(figures) >= 4
    assert all(attributes.get("role") == "img" and attributes.get("aria-labelledby") for attributes in figures)
    assert names.count("desc") == len(figures)
    assert ("html", {"lang": "en"}) in page.tags


def test_nothing_is_loaded_and_nothing_runs(html: str) -> None:
    page = Page(html)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("src", "href", "xlink:href") for name in attributes)
    outside_of_texts = re.sub(re.escape("http://evil.example/x"), "", html)
    assert "http://" not in outside_of_texts
    assert "https://" not in outside_of_texts
    assert "url(" not in html
    assert "@import" not in html
    assert (
        "meta",
        {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
    ) in page.tags


def test_texts_of_users_are_only_text(html: str) -> None:
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in html
    assert "{{ 7 * 7 }}" in html
    assert "A &lt;b&gt;bold&lt;/b&gt; title" in html
    page = Page(html)
    assert EVIL in page.text
    assert "headlens report 'a <b>' --out r.html" in page.text


def test_the_numbers_are_in_it(report: Report, html: str) -> None:
    text = Page(html).text
    for figure in report.quality.figures.values():
        if not (figure.metric == "drift" and figure.role == "full"):
            assert number(figure.value) in text
    for one in report.subjects.all:
        assert one.lens.fingerprint in text
        assert f"{one.lens.parameters:,}" in text
    for sentence in (*report.summary, *report.limits, *report.commands):
        assert sentence in text
    assert report.quality.data_hash in text
    assert report.off in text
    assert report.environment["torch"] in text
    assert report.training is not None
    for sentence in report.training.sentences:
        assert sentence in text
    assert "random cut + recovered 2" in text
    assert report.speed is not None
    for row in report.speed.facts["latency"]:
        assert number(1000 * row["median_seconds"]) in text
    assert report.samples is not None


def test_light_dark_and_paper(html: str) -> None:
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "color-scheme: light dark" in html


def test_every_head_is_on_the_map(report: Report, html: str) -> None:
    lens = report.subjects.full.lens
    for head in lens.topology.heads():
        state = "taken out" if head in report.subjects.off else "kept"
        assert re.search(rf"<title>{head.label}, score [^,]+, {state}</title>", html)


def test_what_is_not_known_is_said(subjects: Subjects, text: Path) -> None:
    data = load_data(str(text), task="causal-lm", split="score", limit=5)
    spec = ReportSpec(benchmark=None, samples=0)
    cut_only = Subjects(subjects.full, subjects.cut, None, subjects.off)
    made = make(cut_only, data, spec)
    page = Page(render(made)).text
    assert "named by hand" in page
    assert "No scores were made" in page
    assert "5 examples are few" in page
    assert "may hold examples that the heads were chosen on" in page
    assert "not compared with random cuts" in page
    assert "Speed was not measured" in page
    assert "Training after the cut" not in page
    alone = make(Subjects(subjects.full), data, spec)
    assert "No head was taken out." in Page(render(alone)).text


def test_numbers_in_words() -> None:
    assert [number(value) for value in (1234567, 0.00012345, 21034.4, float("nan"), None)] == [
        "1,234,567",
        "0.0001234",
        "21,034",
        "–",
        "–",
    ]
    assert (signed(0.5), signed(-0.25), signed(None)) == ("+0.5", "-0.25", "–")
    assert (percent(0.125), percent(None)) == ("+12.5 %", "–")
    assert (size(1_500_000), size(None)) == ("1.5 MB", "–")
