"""Checked claims as Markdown, HTML or CSV."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headlens.claims.run import headline

if TYPE_CHECKING:
    from headlens.claims.run import Checked

MARKS = {"holds": "✔", "fails": "✘", "mixed": "≈", "not measurable": "–"}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 "
    "1rem;color:#1b2230;background:#fff}"
    "h2{font-size:1.15rem;margin:1.6rem 0 .3rem}dt{font-weight:600}dd{margin:0 0 .4rem}"
    ".verdict{font-weight:600}"
)


def exported(found: Sequence[Checked], model: str, ending: str) -> str:
    """The file's text for ``.md``, ``.html`` or ``.csv``."""
    return {".md": markdown, ".html": page, ".csv": csv}[ending](found, model)


def number(one: Checked) -> str:
    """``0.4 (0.3 to 0.5) share of heads``; empty without a number."""
    found = one.finding
    if found.value is None:
        return ""
    span = "" if found.low is None or found.high is None else f" ({found.low:.3g} to {found.high:.3g})"
    return f"{found.value:.3g}{span} {found.unit}".rstrip()


def _parts(one: Checked) -> list[tuple[str, str]]:
    parts = [
        ("Found", one.finding.sentence),
        ("Number, 95 % interval", number(one)),
        ("Why it matters", one.claim.why),
        ("Rule, fixed beforehand", one.claim.rule),
        ("Published", one.claim.published.line()),
        ("Try it yourself", "" if one.finding.again is None else one.finding.again.line()),
    ]
    return [(title, text) for title, text in parts if text]


def markdown(found: Sequence[Checked], model: str) -> str:
    """Markdown."""
    lines = [f"# Claims about head pruning, checked on {_literal(model)}", "", _literal(headline(found)), ""]
    for one in found:
        lines += [f"## {one.claim.statement}", "", f"**{MARKS[one.finding.verdict]} {one.finding.verdict}**", ""]
        lines += [f"- {title}: {_literal(text)}" for title, text in _parts(one)]
        lines.append("")
    return "\n".join(lines)


def _literal(text: str) -> str:
    """Names and texts that must not become markup."""
    return re.sub(r"([\\*_<>\[\]])", r"\\\1", " ".join(text.split()))


def page(found: Sequence[Checked], model: str) -> str:
    """One HTML file that loads nothing; every text is escaped."""
    title = html.escape(f"Claims about head pruning, checked on {model}")
    body = []
    for one in found:
        verdict = f"{MARKS[one.finding.verdict]} {one.finding.verdict}"
        items = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in _parts(one))
        body.append(
            f"<section><h2>{html.escape(one.claim.statement)}</h2>"
            f'<p class="verdict">{html.escape(verdict)}</p><dl>{items}</dl></section>'
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{html.escape(headline(found))}</p>{''.join(body)}</body></html>\n"
    )


def csv(found: Sequence[Checked], model: str) -> str:
    """One row a claim, the fields of the record, and the model's name; no cell is a formula to a spreadsheet."""
    import pandas as pd

    rows = [{"model": " ".join(model.split()), **one.record()} for one in found]
    return pd.DataFrame([{name: _no_formula(value) for name, value in row.items()} for row in rows]).to_csv(index=False)


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
