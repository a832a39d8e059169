"""Tables of the families page: real HTML tables, which screen readers walk through, and a file to take home."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from headlens.families.measures import MEASURES
from headlens.ui import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headlens.families.measures import Measure
    from headlens.families.row import Row

_STYLE = """<style>
.hl-families { overflow-x: auto; }
.hl-families table { border-collapse: collapse; font-size: 0.86rem; width: 100%; font-variant-numeric: tabular-nums; }
.hl-families caption { text-align: left; opacity: 0.75; padding: 0 0 0.3rem; }
.hl-families :is(th, td) { padding: 0.3rem 0.9rem 0.3rem 0; text-align: left; font-weight: 400; vertical-align: top; }
.hl-families thead th { font-weight: 600; white-space: nowrap; }
.hl-families tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 16%, transparent); }
.hl-families .hl-number { white-space: nowrap; }
.hl-families .hl-published { min-width: 16rem; }
</style>"""


def table(measure: Measure, rows: Sequence[Row]) -> None:
    """Every model's number with its interval, how it was measured, and the published counterpart."""
    head = ("Model", "Kind", "Heads", "Value", "95 % interval", "Measured on", "Published (grade)")
    lines = "".join(_line(measure, row) for row in rows)
    columns = "".join(f"<th scope=col>{text}</th>" for text in head)
    caption = html.escape(f"{measure.title}: {measure.axis}")
    st.html(
        f"{_STYLE}<div class=hl-families tabindex=0 role=region aria-label='{caption}'><table>"
        f"<caption>{caption}</caption><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
    st.caption(
        "Grades: P read in the text, code or data themselves; N detailed notes; A abstract; D derived from released "
        "data. Published models are larger, of other tasks and other budgets: compare the kind of answer, not digits."
    )


def _line(measure: Measure, row: Row) -> str:
    found = row.findings[measure.name]
    value, span = _numbers(measure, row)
    if value is None:
        value, span = "does not apply", found.sentence
    texts = {"sets": "", "halves": ", halves of one set"}.get(row.texts, "") if measure.name == "texts" else ""
    where = f"{row.data}, {row.held_out_examples} held-out examples{texts}"
    cells = (
        ("", row.kind_title),
        ("", str(row.heads)),
        ("hl-number", value),
        ("hl-number" if found.value is not None else "", span or ""),
        ("", where),
        ("hl-published", row.published(measure)),
    )
    body = "".join(f"<td class='{kind}'>{html.escape(text)}</td>" for kind, text in cells)
    return f"<tr><th scope=row title='{html.escape(row.title, quote=True)}'>{html.escape(row.short)}</th>{body}</tr>"


def _numbers(measure: Measure, row: Row) -> tuple[str | None, str | None]:
    """Value and interval as text."""
    found = row.findings[measure.name]
    if found.value is None or found.low is None or found.high is None:
        return None, None
    parts = (found.value, found.low, found.high)
    if measure.name == "single-head":
        layers = row.layers
        value, low, high = (f"{round(part * layers)}" for part in parts)
        return f"{value} of {layers}", f"{low} to {high}"
    if measure.percent:
        value, low, high = (f"{100 * part:.3g} %" for part in parts)
    elif measure.name == "cross":
        value, low, high = (f"{part:+.3g} {row.unit}" for part in parts)
    else:
        value, low, high = (f"{part:.2f}" for part in parts)
    return value, f"{low} to {high}"


def in_words(rows: Sequence[Row]) -> None:
    """Every finding of every model in sentences."""
    with st.expander("Model by model, in words"):
        for row in rows:
            st.markdown(f"**{words.plain(row.short)}** · {words.plain(row.title)}")
            said = [f"- {measure.title}: {row.findings[measure.name].sentence}" for measure in MEASURES]
            if row.cut is not None and row.cut.sentence():
                said.insert(1, f"- The heads that can go: {row.cut.sentence()}")
            st.markdown("\n".join(f"- {words.plain(line[2:])}" for line in said))
            st.caption(f"It took {sum(row.seconds.values()):.0f} s, besides what was in the store before.")


def download(rows: Sequence[Row]) -> None:
    """All figures as CSV."""
    from headlens.families.row import to_frame

    st.download_button(
        "Download all figures (CSV)",
        to_frame(list(rows)).to_csv(index=False),
        "families.csv",
        "text/csv",
        key="families_csv",
        icon=":material/download:",
    )
