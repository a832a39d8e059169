"""Roles on the attention page: what the layer's heads are called, all scores, and the text that shows a role best."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui import background, cache, phrases, state, words
from headlens.ui.head_roles import EXAMPLES, HeadRoles, found_roles, role_words, roles_job, roles_key
from headlens.ui.prompt import text_of

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import Head
    from headlens.lens import Lens
    from headlens.ui.choices import Chosen
    from headlens.ui.jobs import Job


def start_roles(chosen: Chosen | None) -> Job | None:
    """The shared job that finds roles; None for models that read no text."""
    if chosen is None or not chosen.lens.accepts("input_ids"):
        return None
    return roles_job(chosen.lens, chosen.data, state.viewer(), costly=True)


def known_roles(lens: Lens, data: EncodedData | None) -> HeadRoles | None:
    """The roles if they have been found, without starting anything."""
    if data is None:
        return None
    few = replace(data, examples=data.examples[:EXAMPLES])
    found = (found_roles(cache.jobs().get(roles_key(lens, few, costly))) for costly in (True, False))
    return next(filter(None, found), None)


def roles_progress(job: Job, polling: bool) -> None:
    """Progress of the job; call in a fragment that polls while it runs."""
    if background.left_behind(job, "roles"):
        return
    if job.running:
        job.look(state.viewer())
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.progress(job.fraction, text=background.line(job))
        right.button("Cancel", key="cancel_roles", on_click=job.leave, args=(state.viewer(),))
    elif job.status == "failed":
        st.warning(words.plain(job.error), icon=":material/info:")
    elif job.status == "cancelled":
        st.caption("Finding the heads' roles was stopped.")
    if polling != job.running and not state.is_whole_page():
        state.rerun()


def role_panel(lens: Lens, found: HeadRoles, head: Head) -> None:
    """One sentence on the large head, the button for its best text, and a table of the layer's heads."""
    from headlens.roles import DETECTORS

    scores = found.scores.of(head)
    label = lens.topology.label(head.site, head.layer, head.head)
    st.subheader("What the heads of this layer do", divider=False)
    role = found.scores.label(head)
    detector = None if role is None else DETECTORS[role]
    st.markdown(
        words.plain(
            phrases.role_sentence(label, None, "", 0, 0, "")
            if detector is None or detector.threshold is None
            else phrases.role_sentence(
                label, role, detector.title, scores[detector.name], detector.threshold, detector.formula
            )
        )
    )
    _best_text(lens, found, head, role, scores)
    _clearest(lens, found)
    _table(lens, found, head)


def _best_text(lens: Lens, found: HeadRoles, head: Head, role: str | None, scores: dict[str, float]) -> None:
    """A button that puts the text that shows a role best into the prompt."""
    from headlens.roles import DETECTORS

    named = {name: score for name, score in scores.items() if DETECTORS[name].threshold is not None}
    near = sorted(named, key=lambda name: -named[name] / (DETECTORS[name].threshold or 1))
    options = [name for name in near if text_for(lens, found, head, name) is not None]
    if not options:
        return
    label = lens.topology.label(head.site, head.layer, head.head)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Role",
            options,
            index=options.index(role) if role in options else 0,
            format_func=lambda name: f"{DETECTORS[name].title} {scores[name]:.2f}",
            key=f"_role_{label}",
            width=260,
        )
        st.button(
            "Look at the text that shows it best",
            key="best_text",
            icon=":material/article:",
            on_click=_take_text,
            args=(lens, found, head, chosen or options[0]),
            help="Puts it into the prompt above. Copying roles are read from random tokens that are repeated.",
        )


def text_for(lens: Lens, found: HeadRoles, head: Head, role: str) -> tuple[str, str | None] | None:
    """The example in which a role of a head shows best, as prompt and target (None without one)."""
    from headlens.data.encode import IGNORE
    from headlens.roles import DETECTORS

    data = found.sources.get(DETECTORS[role].looks_at)
    examples = found.scores.examples.get(role, {}).get(head.site)
    index = -1 if examples is None else int(examples[head.layer, head.head])
    if data is None or index < 0:
        return None
    example = data.examples[index]
    ids = example.inputs["input_ids"]
    if lens.task == "masked-lm" and example.targets is not None:  # what was hidden for scoring is shown
        ids = ids.where(example.targets == IGNORE, example.targets)
    target = example.inputs.get("decoder_input_ids")
    return text_of(lens, ids.tolist()), None if target is None else text_of(lens, target.tolist())


def _take_text(lens: Lens, found: HeadRoles, head: Head, role: str) -> None:
    text = text_for(lens, found, head, role)
    if text is None:
        return
    st.session_state["hl_prompt"] = text[0]
    if text[1] is not None:
        st.session_state["hl_target"] = text[1]
    st.session_state.update(hl_written=0, hl_new_prompt=True)


def clearest(found: HeadRoles) -> dict[str, Head]:
    """For each role that some head has, the head that shows it most clearly."""
    from headlens.roles import DETECTORS

    best: dict[str, Head] = {}
    for role, detector in DETECTORS.items():
        heads = found.scores.passing(role)
        if heads and not (detector.general and role != "first-token"):
            best[role] = max(heads, key=lambda head: found.scores.of(head)[role])
    return best


def _clearest(lens: Lens, found: HeadRoles) -> None:
    """Buttons that go to the clearest head of each role."""
    from headlens.roles import DETECTORS

    best = clearest(found)
    if not best:
        return
    labels = {role: lens.topology.label(head.site, head.layer, head.head) for role, head in best.items()}

    def go() -> None:
        chosen = st.session_state.get("_clearest")
        if chosen in labels:
            st.session_state["hl_attention_head"] = labels[chosen]
        st.session_state["_clearest"] = None

    st.pills(
        "Go to the clearest head of each role",
        list(labels),
        format_func=lambda role: f"{DETECTORS[role].title} {labels[role]}",
        key="_clearest",
        wrap=True,
        on_change=go,
    )


def _table(lens: Lens, found: HeadRoles, head: Head) -> None:
    """All scores of the layer's heads, a row a head."""
    import pandas as pd

    from headlens.heads import Head as AnyHead
    from headlens.roles import DETECTORS

    topology = lens.topology
    rows = []
    for number in topology.site(head.site).layers[head.layer].heads:
        one = AnyHead(head.site, head.layer, number)
        label = topology.label(one.site, one.layer, one.head)
        scores = found.scores.of(one)
        rows.append({"Head": label, "Role": role_words(found, one).rpartition(",")[0] or "none"} | scores)
    columns = {
        name: st.column_config.NumberColumn(
            DETECTORS[name].title, format="%.2f", help=f"{DETECTORS[name].formula} ({DETECTORS[name].unit})"
        )
        for name in DETECTORS
    }
    with st.expander("All scores of this layer"):
        st.dataframe(pd.DataFrame(rows), column_config=columns, hide_index=True, width="stretch", key="role_table")
        st.caption("A head has a role from a threshold on; hover a column's name for its formula.")
