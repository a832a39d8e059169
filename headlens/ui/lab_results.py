"""What a study has found, drawn: the verdict first, then curves, heads, rates and tables."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headlens.charts import lab as charts
from headlens.lab.arms import Tally
from headlens.lab.export import curves_csv, runs_csv
from headlens.lab.results import SUCCESS_SYMBOLS, RunResult
from headlens.lab.specs import RunSpec
from headlens.lab.study import Study
from headlens.ui import state
from headlens.ui.lab_work import Live

HOW = (
    f"A run has succeeded when its held-out loss is below {SUCCESS_SYMBOLS} of a symbol, a rule fixed in advance. "
    "Heads are chosen on other sequences than losses are measured on. Intervals are exact binomial ones (95 %, "
    "Clopper-Pearson), one run a seed; two rates are told apart only where their intervals do not overlap."
)


def dark() -> bool:
    """Whether the page is dark."""
    return st.context.theme.type == "dark"


def show_study(study: Study, live: Live, name: str, *, tables: bool = True) -> None:
    """Draws a study.

    Args:
        study: what was asked for.
        live: what is known so far.
        name: tells the widgets of two studies apart.
        tables: whether tables and files are drawn too, which are of no use while runs are still going on.
    """
    tallies = study.tallies(live.results)
    _verdicts(study, tallies)
    left, right = st.columns(2, gap="medium")
    with left:
        _curves(study, live, name)
    with right:
        _one_run(study, live.results, name)
    left, right = st.columns(2, gap="medium")
    shown = [tally for tally in tallies.values() if tally.rate.runs]
    if shown:
        left.plotly_chart(charts.success_rates(shown, dark=dark()), width="stretch", key=f"{name}_rates")
        right.plotly_chart(charts.losses(shown, dark=dark()), width="stretch", key=f"{name}_losses")
    st.caption(HOW)
    pruned = [result for result in live.results.values() if result.by_size and result.spec.prune_to is not None]
    if pruned:
        figure = charts.pruning_paths(pruned, guessing=study.task.guessing, dark=dark())
        st.plotly_chart(figure, width="stretch", key=f"{name}_paths")
        st.caption("A pruned model can do worse than guessing: it is still sure of what it no longer sees.")
    if tables:
        _table(tallies, live, name)


def _verdicts(study: Study, tallies: Mapping[str, Tally]) -> None:
    verdicts = study.verdicts(tallies)
    if not any(tally.rate.runs for tally in tallies.values()):
        return
    for number, verdict in enumerate(verdicts):
        icon = {"higher": "↑", "lower": "↓"}.get(verdict.decision, "·")
        st.markdown(f"{'**' if not number else ''}{icon} {verdict.sentence}{'**' if not number else ''}")
    for remark in study.remarks(tallies):
        st.markdown(f"· {remark}")
    if len(study.seeds) == 1:
        st.info("One seed gives no interval: choose more seeds for a verdict.", icon=":material/info:")


def _curves(study: Study, live: Live, name: str) -> None:
    series = {}
    for arm in study.arms():
        if arm.outcome == "trained":
            curves = [live.curves[spec] for spec in arm.runs(study.seeds) if spec in live.curves]
            if curves:
                series[arm.title] = curves
    task = study.task
    figure = charts.learning_curves(series, guessing=task.guessing, symbol=task.bits_a_distance, dark=dark())
    st.plotly_chart(figure, width="stretch", key=f"{name}_curves")


def _one_run(study: Study, results: Mapping[RunSpec, RunResult], name: str) -> None:
    ended = [results[spec] for spec in study.specs() if spec in results]
    if not ended:
        st.caption("What each head looks at appears here when the first run has ended.")
        return
    titles = [run_title(result) for result in ended]
    key = f"lab_run_{name}"
    chosen = st.session_state.get(f"hl_{key}")
    state.fill(f"_{key}", chosen if chosen in titles else titles[0])
    st.selectbox(
        "One run",
        titles,
        key=f"_{key}",
        on_change=lambda: st.session_state.update({f"hl_{key}": st.session_state[f"_{key}"]}),
    )
    result = ended[titles.index(st.session_state[f"_{key}"])]
    st.plotly_chart(charts.attention_map(result, dark=dark()), width="stretch", key=f"{name}_attention")
    st.caption(found_sentence(result))


def run_title(result: RunResult) -> str:
    """Which run it is, for people."""
    spec, after = result.spec, result.spec.after
    a = spec.architecture
    what = f"{a.heads} heads"
    if after is not None:
        what += {
            "continued": f", {after.steps} steps more",
            "pruned": f" pruned to {after.heads}, {after.steps} steps more",
            "random": f" cut to {after.heads} random ones, {after.steps} steps more",
            "ticket": f", {after.heads} survivors trained anew",
        }[after.kind]
    details = [
        f"{a.shape}",
        f"width {a.d_head}" if a.d_head != 8 else "",
        f"MLP {a.mlp}" if a.mlp != 128 else "",
        f"{spec.training.steps} steps",
        f"rate {spec.training.learning_rate:.2g}",
        f"{len(spec.task.distances)} distances",
        f"{spec.task.symbols} symbols" if spec.task.symbols != 2 else "",
        f"to {spec.prune_to}" if spec.prune_to is not None else "",
    ]
    return f"{what}, seed {spec.training.seed} ({', '.join(filter(None, details))})"


def found_sentence(result: RunResult) -> str:
    """Which distances were found, and which nobody found."""
    task, pairs = result.spec.task, list(zip(result.spec.task.distances, result.by_distance, strict=True))
    missed = [str(distance) for distance, bits in pairs if bits > task.bits_a_distance / 2]
    found = ", ".join(map(str, result.found)) or "none"
    sentence = f"Loss {result.loss_bits:.3f} bits ± {result.loss_sem:.3f} (over sequences). Attended to: {found}. "
    if not missed:
        return sentence + "No distance is missed."
    return sentence + f"Missed (more than half a symbol lost): {', '.join(missed)}."


def _table(tallies: Mapping[str, Tally], live: Live, name: str) -> None:
    import pandas as pd

    rows = [tally.row() for tally in tallies.values() if tally.rate.runs]
    if not rows:
        return
    columns = {
        "title": "What",
        "runs": "Runs",
        "successes": "Successes",
        "low": "95 % from",
        "high": "95 % to",
        "mean_bits": "Mean loss (bits)",
        "sem_bits": "Std. error",
        "median_bits": "Median (bits)",
        "parameters": "Parameters",
        "training_flops": "Training FLOPs",
    }
    shown = [{title: row[name] for name, title in columns.items()} for row in rows]
    with st.expander("All numbers"):
        st.dataframe(pd.DataFrame(shown), hide_index=True, key=f"{name}_table")
        results = list(live.results.values())
        left, right = st.columns(2)
        left.download_button("Runs as CSV", runs_csv(results), "lab-runs.csv", "text/csv", key=f"{name}_csv")
        right.download_button("Curves as CSV", curves_csv(results), "lab-curves.csv", "text/csv", key=f"{name}_points")
