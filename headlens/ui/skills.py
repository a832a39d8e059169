"""Skills as bars that follow the switches: what the model can still do, though its loss may look fine."""

from __future__ import annotations

import html
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.ui import background, cache, effects, words

if TYPE_CHECKING:
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.probes.probe import Prober
    from headlens.probes.result import ProbeResult, SkillResult
    from headlens.ui.choices import Chosen
    from headlens.ui.jobs import Job

SECTION = "skills"
SMALL, WHOLE = 12, 48
"""Pairs of each skill: first a few for a quick answer, then as many as the built-in files hold."""
_STYLE = """<style>
.hl-skills { overflow-x: auto; }
.hl-skills table { border-collapse: collapse; font-size: 0.84rem; width: 100%; font-variant-numeric: tabular-nums; }
.hl-skills :is(th, td) { padding: 0.25rem 0.8rem 0.25rem 0; text-align: left; font-weight: 400; }
.hl-skills thead th { font-weight: 600; }
.hl-skills tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 16%, transparent); }
</style>"""


def applies(lens: Lens) -> bool:
    """Whether the model can be asked: it says words."""
    from headlens.probes.encode import TASKS

    return lens.task in TASKS and lens.tokenizer is not None


def prober_of(lens: Lens, pairs: int) -> Prober:
    """The model's skills, kept with it: what it answers with all heads on is asked once."""
    from headlens.probes import Prober

    return cache.shelf().companion(lens, (SECTION, pairs), lambda: Prober(lens, limit=pairs))


def follow_switches(chosen: Chosen, off: HeadSet) -> None:
    """Asks again after every switch, when the clicks rest; call in the fragment of the switches."""
    if not applies(chosen.lens):
        return
    if len(off):
        background.follow(SECTION, _key(chosen, off), "Skills", _work(chosen, off))
    elif not background.is_shown(SECTION, _key(chosen, off)):
        background.leave(SECTION)


def _key(chosen: Chosen, off: HeadSet) -> Hashable:
    return (SECTION, chosen.lens.fingerprint, chosen.ablation, chosen.lens.topology.format(off))


def _work(chosen: Chosen, off: HeadSet) -> Any:
    def work(job: Job) -> ProbeResult:
        from headlens.switches import as_ablation

        found: ProbeResult | None = None
        for pairs in (SMALL, WHOLE):
            job.phase(f"Skills, {pairs} pairs each")
            prober = prober_of(chosen.lens, pairs)
            prober.prepare(job.progress)
            counted = _Counted(job, prober.passes)
            found = prober.probe(off, ablation=as_ablation(chosen.ablation), on_progress=counted)
            job.publish(found)
        assert found is not None
        return found

    return work


class _Counted:
    """Counts the passes of all skills as one stretch of work."""

    def __init__(self, job: Job, total: int) -> None:
        self.job, self.total, self.done = job, total, 0

    def __call__(self, _done: int, _total: int) -> None:
        self.done += 1
        self.job.progress(min(self.done, self.total), self.total)


def section(chosen: Chosen, off: HeadSet) -> None:
    """The bars, and which skill is gone though the loss may look fine."""
    if not applies(chosen.lens):
        return
    with st.container(border=True, key="skills"):
        st.subheader("What it can still do", divider=False)
        key = _key(chosen, off)
        if not background.is_shown(SECTION, key):
            st.caption(
                "Every skill is asked in minimal pairs: does the right answer get more than its foil? "
                "Switch heads off to see which skill goes with them."
            )
            if not len(off):
                st.button(
                    "Ask with all heads on",
                    key="skills_start",
                    on_click=lambda: background.start(SECTION, key, "Skills", _work(chosen, off)),
                )
            return
        job = background.finished(SECTION, key) or background.job_of(SECTION)
        if job is None:
            return
        found: ProbeResult | None = job.result or job.partial
        if found is not None:
            _draw(chosen, off, found)


def _draw(chosen: Chosen, off: HeadSet, found: ProbeResult) -> None:
    from headlens.charts.skills import skill_bars
    from headlens.server.shared import MISSING

    known = cache.shared().peek(cache.live_key(chosen.lens.fingerprint, found.off, chosen.ablation))
    evaluation = None if known is MISSING or not len(off) else known
    said = found.sentences(evaluation)
    gone = bool(found.of("lost"))
    text = "  \n".join(words.plain(line) for line in said)
    if gone:
        st.warning(text, icon=":material/block:")
    else:
        st.markdown(text)
    if not found.skills:
        return
    figure = skill_bars(found, dark=st.context.theme.type == "dark")
    alt = " ".join(said)
    st.plotly_chart(figure, width="stretch", key="fig_skills", alt=alt, config={"displayModeBar": False})
    pairs = sorted({each.pairs for each in found.skills})
    many = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    st.caption(
        f"{many} pairs a skill. Right: the answer's logit is above its foil's, exact 95 % interval; dashed: guessing. "
        "Loss: −log p of the right answer, ± 1.96 standard errors. A skill is called lost by an exact McNemar test "
        "(Holm over skills, 5 %) when what is left cannot be told from guessing. "
        f"{effects.ablation_note(chosen) if len(off) else ''}"
    )
    with st.expander("The same in numbers"):
        st.html(_table(found))


def _table(found: ProbeResult) -> str:
    switched = found.off != "none"
    head = ["Skill", "Pairs", "Right, all on", "Loss, all on (nats)"]
    head += ["Right now", "Loss now (nats)", "Verdict"] if switched else []
    columns = "".join(f"<th scope=col>{text}</th>" for text in head)
    lines = "".join(_line(found, each, switched) for each in found.skills)
    return (
        f"{_STYLE}<div class=hl-skills tabindex=0 role=region aria-label='Skills in numbers'><table><thead><tr>"
        f"{columns}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _line(found: ProbeResult, each: SkillResult, switched: bool) -> str:
    def right(share: Any) -> str:
        return f"{100 * share.value:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f})"

    def nats(mean: Any) -> str:
        return f"{mean.value:.3f} ± {mean.sem:.3f}"

    cells = [str(each.pairs), right(each.accuracy_before), nats(each.loss_mean_before)]
    if switched:
        cells += [right(each.accuracy), nats(each.loss_mean), found.verdicts[each.skill.name]]
    body = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr><th scope=row>{html.escape(each.skill.title)}</th>{body}</tr>"
