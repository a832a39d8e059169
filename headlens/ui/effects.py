"""What the switches do, section by section: numbers, held-out text, continuation, sum and joint, smallest change."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.ui import cache, state, words
from headlens.ui.jobs import Job
from headlens.ui.prompt import question_inputs

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.generation import Continuation, Continuations
    from headlens.heads import HeadSet
    from headlens.ui.sidebar import Chosen

SECTIONS = ("held_out", "continuation", "sum", "smallest")
NEW_TOKENS = 24
SINGLE_AT_ONCE = 64
"""Up to so many heads the sum of single effects is computed without asking."""


def metrics(chosen: Chosen, off: HeadSet) -> Evaluation:
    """Loss, perplexity, accuracy and drift on the live set, before and after; one sentence below."""
    found = evaluate_live(chosen, off)
    rows: list[tuple[str, str, str | None, bool]] = []
    switched = len(off) > 0
    for name, title, form in (
        ("loss", "Loss", "{:.4f}"),
        ("accuracy", "Accuracy", "{:.1%}"),
        ("drift", "Drift", "{:.4f}"),
    ):
        measured = found.measured.get(name)
        if measured is not None:
            sign = form.replace(":", ":+")
            rows.append((title, form.format(measured.value), sign.format(measured.delta), name == "accuracy"))
        if name == "loss" and measured is not None and not chosen.lens.task.endswith("classification"):
            figures = found.to_json()
            before, after = figures["perplexity_baseline"], figures["perplexity"]
            if before is not None and after is not None:
                rows.append(("Perplexity", f"{after:.2f}", f"{after - before:+.2f}", False))
    columns = st.columns(2) + st.columns(2)
    for column, (title, value, delta, up_is_good) in zip(columns, rows, strict=False):
        colour = "normal" if up_is_good else "inverse"
        column.metric(title, value, delta if switched else None, delta_color=colour)
    st.caption(words.off_sentence(found, len(off), len(chosen.lens.topology.heads())) + " Live set.")
    return found


def evaluate_live(chosen: Chosen, off: HeadSet) -> Evaluation:
    """The live set with ``off`` off."""
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    live = cache.live_evaluator(chosen.lens.name, chosen.lens, chosen.lens.fingerprint)
    return live.evaluate(off, metric=metric_for(None, chosen.lens.task), ablation=as_ablation(chosen.ablation))


def busy() -> bool:
    """Whether a section's work is running."""
    return any(job is not None and job.running for job in map(_job, SECTIONS))


def _job(section: str) -> Job | None:
    key: Hashable | None = st.session_state.get(f"hl_job_{section}")
    return None if key is None else cache.jobs().get(key)


def _start(section: str, key: Hashable, title: str, work: Any) -> Job:
    st.session_state[f"hl_job_{section}"] = key
    return cache.jobs().start(key, title, work, state.viewer())


def _key(chosen: Chosen, section: str, *more: Hashable) -> Hashable:
    return (section, chosen.lens.fingerprint, chosen.ablation, *more)


def _wait(section: str) -> Job | None:
    """Progress and cancel of a section's job; the job when it is done."""
    job = _job(section)
    if job is None:
        return None
    if job.running:
        job.look(state.viewer())
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.progress(job.fraction, text=f"{job.title}: {job.fraction:.0%}, {words.duration(job.seconds_left)}")
        right.button("Cancel", key=f"cancel_{section}", on_click=job.leave, args=(state.viewer(),))
        return None
    if job.status == "failed":
        st.warning(job.error, icon=":material/info:")
        return None
    return job if job.status == "done" else None


def held_out(chosen: Chosen, off: HeadSet) -> None:
    """The whole held-out half, streaming in behind the live set."""
    from headlens.data.select import load_data
    from headlens.evaluate import evaluate
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation
    from headlens.ui.sidebar import encode_for

    if not len(off) or chosen.data.split == "all":
        return
    text = chosen.lens.topology.format(off)
    key = _key(chosen, "held_out", chosen.data.name, text)

    def work(job: Job) -> Evaluation:
        data = encode_for(chosen.lens, load_data(chosen.data.name, task=chosen.lens.task, split="held-out"))
        return evaluate(
            chosen.lens,
            data,
            off,
            metric=metric_for(None, chosen.lens.task),
            ablation=as_ablation(chosen.ablation),
            on_progress=job.progress,
        )

    st.subheader("On the whole held-out half", divider=False)
    if st.session_state.get("hl_job_held_out") != key:
        old = _job("held_out")
        if old is not None and old.running:
            old.leave(state.viewer())
        _start("held_out", key, f"Measuring {chosen.data.name}, held-out half", work)
    job = _wait("held_out")
    if job is not None:
        st.markdown(words.off_sentence(job.result, len(off), len(chosen.lens.topology.heads())))


def continuation(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    """The text that the model writes on, with and without the heads."""
    from headlens.generation import continuations

    if chosen.lens.task not in ("causal-lm", "seq2seq"):
        return
    st.subheader("How it writes on", divider=False)
    key = _key(chosen, "continuation", prompt, chosen.lens.topology.format(off))

    def work(job: Job) -> Continuations:
        return continuations(chosen.lens, prompt, off, max_new_tokens=NEW_TOKENS, on_progress=job.progress)

    st.button(
        "Write on, with and without these heads",
        key="write_on",
        disabled=not prompt.strip(),
        on_click=lambda: _start("continuation", key, "Writing", work),
    )
    if st.session_state.get("hl_job_continuation") != key:
        return
    job = _wait("continuation")
    if job is None:
        return
    found: Continuations = job.result
    left, right = st.columns(2)
    _text(left, "All heads on", found.before, found.first_difference)
    _text(right, f"{len(off)} heads off", found.after, found.first_difference)
    if found.first_difference is None:
        st.caption("Both continuations are the same, token by token.")
    else:
        st.caption(
            f"The two part at token {found.first_difference + 1}, marked in colour. Most probable token at each step."
        )
    if chosen.ablation != "zero":
        st.caption("Text is always written with zero ablation.")


def _text(column: Any, title: str, text: Continuation, difference: int | None) -> None:
    pieces = [step.label.surface for step in text.steps]
    split = len(pieces) if difference is None else difference
    column.caption(title)
    same, other = "".join(pieces[:split]), "".join(pieces[split:])
    body = words.plain(same) + (f":orange-background[{words.plain(other)}]" if other.strip() else "")
    column.markdown(body or "*(nothing)*")


def sum_against_joint(chosen: Chosen, off: HeadSet) -> None:
    """Do the heads back each other up?"""
    from headlens.heads import HeadSet as Heads
    from headlens.redundancy import Redundancy, joint_against_sum

    if len(off) < 2:
        return
    st.subheader("One at a time against all at once", divider=False)
    key = _key(chosen, "sum", chosen.lens.topology.format(off))

    def work(job: Job) -> Redundancy:
        single = {}
        for done, head in enumerate(off):
            main = evaluate_live(chosen, Heads.of([head])).main
            single[head] = (main.delta, main.delta_sem)
            job.progress(done + 1, len(off))
        return joint_against_sum(
            single, evaluate_live(chosen, off).main, unit=words.unit_of("ablation", chosen.metric, "")
        )

    if st.session_state.get("hl_job_sum") != key:
        if len(off) > SINGLE_AT_ONCE:
            st.button(
                f"Measure all {len(off)} heads one at a time",
                key="sum_start",
                on_click=lambda: _start("sum", key, "Single effects", work),
            )
            return
        _start("sum", key, "Single effects on the live set", work)
    job = _wait("sum")
    if job is not None:
        st.markdown(job.result.sentence())


def smallest_change(chosen: Chosen, prompt: str) -> None:
    """Searches the smallest set of heads that changes the model's answer to the prompt."""
    from headlens.minimal import smallest_change as search

    if chosen.lens.task == "embedding":
        return
    st.subheader("The fewest heads that change the answer", divider=False)
    key = _key(chosen, "smallest", prompt)

    def work(job: Job) -> Any:
        inputs = question_inputs(chosen.lens, prompt)
        return search(chosen.lens, inputs, on_progress=job.progress)

    st.button(
        "Search",
        key="smallest_start",
        disabled=not prompt.strip(),
        on_click=lambda: _start("smallest", key, "Searching the fewest heads", work),
        help="Tries every head alone, then grows a set by gradients and takes out what is not needed.",
    )
    if st.session_state.get("hl_job_smallest") != key:
        return
    job = _wait("smallest")
    if job is None:
        return
    st.markdown(words.plain(job.result.sentence()))
    if len(job.result.heads):
        st.button(
            "Switch these off",
            key="smallest_use",
            on_click=lambda: state.switch(chosen.lens.topology, job.result.heads),
        )
