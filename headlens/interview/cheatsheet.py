"""The cheat sheet: one page to print, in one file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headlens.interview.bank import Bank, cite_text
from headlens.interview.quantities import QUANTITIES, NotHereError, live
from headlens.interview.schema import GRADES
from headlens.interview.shape import GPT2_SMALL

if TYPE_CHECKING:
    from headlens.interview.shape import Shape

TEMPLATE = Path(__file__).with_name("cheatsheet.html")
NUMBERS = ("head-parameters", "attention-share", "kv-bytes-per-token", "kv-saved-by-query-head", "write-share")


def cheat_sheet(bank: Bank, shape: Shape | None) -> str:
    """The page as HTML; whatever is put in is escaped.

    Args:
        bank: gives the text.
        shape: of the model whose numbers stand on it; None takes GPT-2 small.
    """
    from jinja2 import Environment, StrictUndefined

    shape = GPT2_SMALL if shape is None else shape
    numbers = []
    for name in NUMBERS:
        try:
            numbers.append({"title": QUANTITIES[name].title, "value": live(name, shape).text})
        except NotHereError:
            continue
    boxes = [
        {
            "title": box.title,
            "lines": [
                {"text": line.text, "source": "; ".join(cite_text(cite, bank.sources) for cite in line.sources)}
                for line in box.lines
            ],
        }
        for box in bank.main.sheet
    ]
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return page.render(
        short=bank.main.short,
        boxes=boxes,
        model=shape.name,
        numbers=numbers,
        memory_title=bank.main.memory_title,
        memory=bank.main.memory,
        grades="; ".join(f"[{letter}] {meaning}" for letter, meaning in GRADES.items()),
    )
