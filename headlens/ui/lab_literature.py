"""The literature on both sides, with sources and grades."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from headlens.charts.lab_literature import pruned_or_scratch
from headlens.lab.literature import Literature, gap_sentence, literature
from headlens.ui.lab_results import dark

SIDES = {
    "for": "For: what is easy to keep is hard to learn",
    "against": "Against, or limits of the claim",
}


def show() -> None:
    """Draws the section."""
    found = literature()
    for side, title in SIDES.items():
        st.subheader(title, anchor=False)
        rows = [
            {
                "Source": f.source,
                "Grade": f.grade,
                "What was compared": f.what,
                "Numbers": f.numbers,
                "Limits": f.limits,
            }
            for f in found.side(side)
        ]
        st.table(pd.DataFrame(rows).set_index("Source"))
    grades = " · ".join(f"**{grade}** {meaning}" for grade, meaning in found.grades.items())
    st.caption(f"Grades: {grades}.")
    _voita(found)
    _prasanna(found)
    hypothesis = found.raw["hypothesis"]
    st.subheader(hypothesis["title"], anchor=False)
    st.markdown(hypothesis["text"])
    st.markdown(f"- {hypothesis['supports']}\n- {hypothesis['contradicts']}")


def _voita(found: Literature) -> None:
    about = found.voita_about
    st.subheader("The same heads, pruned and from scratch", anchor=False)
    st.plotly_chart(pruned_or_scratch(found, dark=dark()), width="stretch", key="lab_voita")
    st.markdown(gap_sentence(found.voita))
    st.caption(f"{about['source']}, grade {about['grade']}. {about['note']}")


def _prasanna(found: Literature) -> None:
    about = found.raw["prasanna"]
    st.subheader("Important or random heads, before and after retraining", anchor=False)
    table = pd.DataFrame([row["values"] for row in about["rows"]], columns=about["tasks"])
    table.insert(0, "Heads", [row["setting"] for row in about["rows"]])
    st.table(table.set_index("Heads"))
    st.caption(f"{about['source']}, grade {about['grade']}. {about['note']}")
