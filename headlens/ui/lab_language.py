"""The same question on small English, and sharing keys and values instead of removing heads."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from headlens.charts.lab_language import gaps, loss_against_cache
from headlens.lab.language_results import ARMS, SHARINGS, cells, sentences, sharing, sharing_sentences
from headlens.lab.literature import literature
from headlens.lab.shipped import LANGUAGE, SHARING, made_by, shipped_table
from headlens.lab.statistics import Mean
from headlens.ui.lab_results import dark

ABOUT = """
Small English: stories of known grammar, so the best possible loss is known exactly and what is shown is the **gap**
to it. Qwen3-shaped models, 2 layers, width 128, heads 16 wide. Eight heads a layer are trained and pruned to 4, 2
and 1 at 80 % or at 50 % of the steps (greedily, on other stories than are measured on), then trained for the rest
of the steps; beside them 4, 2 and 1 heads from scratch with the same steps and with the same FLOPs, and random
heads with the same recovery. Every model reads the same stories in the same order.
"""
NOT_RUN = (
    "It has not been run yet, so there is nothing to show. `make lab-language` runs it (about an hour of one core)."
)
REASONS = """
What could make the outcome differ from the bit task, and can be tested: a word can be guessed in part, so a missing
head costs a little, not a whole bit, and nothing gets stuck; heads here are wider (16) than the task's parts need;
the number of steps. Published results point both ways too: Liu et al. 2019 (scratch as good as fine-tuned) and
Prasanna et al. 2020 (random heads recover with retraining) against Voita et al. 2019 and Li et al. 2020; see
*Literature*. Limits: one small language, one size; AdamW starts with fresh averages after pruning.
"""
SHARED = """
Modern models keep 32 to 128 query heads and share keys and values instead: a cache is read for every token that is
written, so its bytes cost time, while query heads cost little. The same small language with eight query heads in
four ways, equal width, the same stories. *Prunable*: share of query heads that greedy pruning takes before the
held-out loss rises by 1 %.
"""


def show() -> None:
    """Draws the section on the language model."""
    st.markdown(ABOUT)
    table = shipped_table(LANGUAGE)
    if table is None:
        st.info(NOT_RUN, icon=":material/info:")
        st.markdown(REASONS)
        return
    found = cells(table["rows"])
    for sentence in sentences(found):
        st.markdown(f"- {sentence}")
    st.caption("Differences are paired by seed, with 95 % intervals by Student's t; below zero is better than scratch.")
    st.plotly_chart(gaps(found, dark=dark()), width="stretch", key="lab_gaps")
    rows = [
        {
            "What": ARMS.get(cell.arm, "nothing removed"),
            "Heads a layer": cell.heads,
            "Seeds": len(cell.seeds),
            "Gap (nats a token)": _number(cell.mean),
            "Training FLOPs": f"{cell.flops:.2e}",
        }
        for cell in found
    ]
    with st.expander("All numbers"):
        st.dataframe(pd.DataFrame(rows), hide_index=True)
    st.caption(f"± is the standard error over seeds; {made_by(table)}.")
    st.markdown(REASONS)


def show_sharing() -> None:
    """Draws the section on sharing."""
    st.markdown(SHARED)
    table = shipped_table(SHARING)
    if table is None:
        st.info(NOT_RUN, icon=":material/info:")
    else:
        found = sharing(table["rows"])
        for sentence in sharing_sentences(table["rows"]):
            st.markdown(f"- {sentence}")
        st.plotly_chart(loss_against_cache(found, dark=dark()), width="stretch", key="lab_cache")
        rows = [
            {
                "How": SHARINGS[each.sharing],
                "Seeds": each.seeds,
                "Gap (nats a token)": _number(each.gap),
                "KV bytes a token": each.kv_bytes,
                "Prunable within 1 %": f"{each.prunable.value:.0%}",
                "Parameters": each.parameters,
            }
            for each in found
        ]
        st.dataframe(pd.DataFrame(rows), hide_index=True)
        st.caption(f"± is the standard error over seeds; {made_by(table)}.")
    st.subheader("What is published", anchor=False)
    for row in literature().raw["sharing"]:
        st.markdown(f"- {row['what']} ({row['source']}, grade {row['grade']}).")


def _number(found: Mean) -> str:
    return f"{found.value:.4f}" + ("" if math.isnan(found.sem) else f" ± {found.sem:.4f}")
