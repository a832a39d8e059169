"""The cheat sheet: everything on it, nothing from outside, and escaped."""

from __future__ import annotations

import html
import re
from dataclasses import replace

from headlens.interview.bank import load_bank
from headlens.interview.cheatsheet import cheat_sheet
from headlens.interview.shape import GPT2_SMALL, shape_of
from tests.unit.helpers import lens_for

BANK = load_bank()


def test_all_boxes_lines_and_sources_are_on_it() -> None:
    page = html.unescape(cheat_sheet(BANK, None))
    for box in BANK.main.sheet:
        assert box.title in page
        for line in box.lines:
            assert line.text in page
            assert BANK.sources[line.sources[0].id].who in page
    assert BANK.main.short in page
    assert "36,864 bytes (36 KiB)" in page
    assert "GPT-2 small" in page


def test_it_needs_nothing_else() -> None:
    page = cheat_sheet(BANK, None)
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", page)
    assert page.startswith("<!doctype html>")
    assert '<html lang="en">' in page


def test_numbers_are_those_of_the_model_and_missing_ones_are_left_out() -> None:
    page = cheat_sheet(BANK, shape_of(lens_for("llama")[0]))
    assert "Bytes of cache a token" in page
    assert "bytes" not in cheat_sheet(BANK, shape_of(lens_for("bert-bare")[0])).split("With the numbers of")[1]


def test_a_models_name_is_text() -> None:
    page = cheat_sheet(BANK, replace(GPT2_SMALL, name="<script>alert(1)</script>"))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
