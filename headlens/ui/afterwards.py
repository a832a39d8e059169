"""What streams in behind the live figures: the whole held-out half, sum against joint effect, the fewest heads."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.ui import background, effects, methods, state, words
from headlens.ui.choices import encode_for

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.heads import HeadSet
    from headlens.minimal import MinimalChange
    from headlens.redundancy import Redundancy
    from headlens.ui.choices import Chosen
    from headlens.ui.jobs import Job

SINGLE_AT_ONCE = 24
"""Up to so many heads are measured one at a time without asking."""


def follow_switches(chosen: Chosen, off: HeadSet) -> None:
    """Begins what every switch wants to know; call in the fragment of the switches."""
    if not len(off):
        background.leave("held_out")
        background.leave("sum")
        return
    if len(off) >= 2 and len(off) <= SINGLE_AT_ONCE:
        background.follow("sum", _key(chosen, "sum", off), "Heads one at a time", _sum_work(chosen, off))
    if chosen.data.split != "all":
        title = f"All of {chosen.data.name}, held-out half"
        background.follow("held_out", _key(chosen, "held_out", off), title, _held_out_work(chosen, off))


def _key(chosen: Chosen, section: str, off: HeadSet) -> Hashable:
    data = chosen.data.name if section == "held_out" else ""
    return (section, chosen.lens.fingerprint, chosen.ablation, data, chosen.lens.topology.format(off))


def held_out(chosen: Chosen, off: HeadSet) -> None:
    """The figures on the whole held-out half of the chosen set."""
    with st.container(border=True):
        st.subheader("On the whole held-out half", divider=False)
        if not len(off):
            st.caption("Switch heads off: after the live set, the whole held-out half of the chosen text is measured.")
        elif chosen.data.split == "all":
            st.caption("Your own text is not split, so it has no held-out half.")
        else:
            job = background.finished("held_out", _key(chosen, "held_out", off))
            if job is not None:
                found: Evaluation = job.result
                st.markdown(words.plain(words.off_sentence(found, len(off), len(chosen.lens.topology.heads()))))


def _held_out_work(chosen: Chosen, off: HeadSet) -> Any:
    def work(job: Job) -> Evaluation:
        from headlens.data.select import load_data
        from headlens.evaluate import evaluate
        from headlens.metrics import metric_for
        from headlens.switches import as_ablation

        data = encode_for(chosen.lens, load_data(chosen.data.name, task=chosen.lens.task, split="held-out"))
        return evaluate(
            chosen.lens,
            data,
            off,
            metric=metric_for(None, chosen.lens.task),
            ablation=as_ablation(chosen.ablation),
            batch_size=4,
            on_progress=job.progress,
        )

    return work


def sum_against_joint(chosen: Chosen, off: HeadSet) -> None:
    """Do the heads back each other up?"""
    with st.container(border=True):
        st.subheader("One at a time, and all at once", divider=False)
        if len(off) < 2:
            st.caption("Switch two or more heads off to see whether they back each other up.")
            return
        key = _key(chosen, "sum", off)
        if len(off) > SINGLE_AT_ONCE and not background.is_shown("sum", key):
            st.button(
                f"Measure these {len(off)} heads one at a time",
                key="sum_start",
                on_click=lambda: background.start("sum", key, "Heads one at a time", _sum_work(chosen, off)),
            )
            return
        job = background.finished("sum", key)
        if job is not None:
            st.markdown(words.plain(job.result.sentence()))
            st.caption("Both on the live set.")


def _sum_work(chosen: Chosen, off: HeadSet) -> Any:
    def work(job: Job) -> Redundancy:
        from headlens.heads import HeadSet as Heads
        from headlens.redundancy import joint_against_sum

        single = {}
        for done, head in enumerate(off):
            single[head] = effects.evaluate_live(chosen, Heads.of([head])).main
            job.progress(done + 1, len(off))
        unit = methods.unit_of("ablation", chosen.metric, chosen.lens.task)
        return joint_against_sum(single, effects.evaluate_live(chosen, off).main, unit=unit)

    return work


def smallest_change(chosen: Chosen, prompt: str) -> None:
    """Searches the smallest set of heads that changes the model's answer to the prompt."""
    if chosen.lens.task in ("embedding", "image-classification"):
        return
    with st.container(border=True):
        st.subheader("The fewest heads that change the answer", divider=False)
        key = ("smallest", chosen.lens.fingerprint, prompt)
        st.button(
            "Search",
            key="smallest_start",
            disabled=not prompt.strip(),
            on_click=lambda: background.start("smallest", key, "Searching", _search_work(chosen, prompt)),
            help="Tries every head alone, then grows a set by gradients and takes out what is not needed. "
            "It starts from all heads on; heads that are off write zero.",
        )
        job = background.finished("smallest", key)
        if job is None:
            return
        found: MinimalChange = job.result
        st.markdown(words.plain(found.sentence()))
        if found.found:
            st.button(
                f"Switch off just {found.off}",
                key="smallest_use",
                on_click=lambda: state.switch(chosen.lens.topology, found.heads),
            )


def _search_work(chosen: Chosen, prompt: str) -> Any:
    def work(job: Job) -> MinimalChange:
        from headlens.minimal import smallest_change as search

        reading = effects.question(chosen.lens, prompt)
        return search(chosen.lens, reading.inputs(chosen.lens), on_progress=job.progress)

    return work
