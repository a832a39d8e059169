"""What is to be run in the lab: the choices of the page, checked and turned into a study."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headlens.errors import HeadlensError
from headlens.lab.estimate import cores, total_seconds
from headlens.lab.estimate import words as duration
from headlens.lab.questions import CONTROLS, controls
from headlens.lab.specs import Architecture, Task, Training, numbers
from headlens.lab.study import Study
from headlens.ui import state, words

HEADS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)
SHAPES = {"llama": "Llama-shaped", "qwen3": "Qwen3-shaped (normalised queries and keys)"}
RATES = (1e-3, 3e-3, 1e-2)
DEFAULTS: dict[str, Any] = {
    "heads": [4, 8],
    "small": 4,
    "distances": "1, 4, 8, 13",
    "symbols": 2,
    "shape": "llama",
    "steps": 600,
    "rate": 3e-3,
    "seeds": 4,
    "first_seed": 0,
    "extra": 300,
    "controls": [],
    "checkpoints": False,
}


def _value(name: str) -> Any:
    return state.remember(f"lab_{name}", DEFAULTS[name])


def _key(name: str) -> str:
    """The widget's key, told its value before it is drawn."""
    key = f"_lab_{name}"
    state.fill(key, _value(name))
    return key


def _changed(name: str) -> dict[str, Any]:
    def copy() -> None:
        st.session_state[f"hl_lab_{name}"] = st.session_state[f"_lab_{name}"]

    return {"key": _key(name), "on_change": copy}


def choose_study() -> Study | None:
    """Draws the choices; None where they do not fit together (said in place)."""
    left, middle, right = st.columns(3)
    with left:
        st.multiselect("Heads to train with", HEADS, **_changed("heads"))
        st.number_input("Prune the larger ones to", 1, 32, **_changed("small"))
    with middle:
        st.number_input("Seeds (runs of each kind)", 1, 50, **_changed("seeds"))
        st.text_input("Distances back that make the target", **_changed("distances"))
    with right:
        st.selectbox("Shape of the model", list(SHAPES), format_func=lambda name: SHAPES[name], **_changed("shape"))
        st.number_input("Steps", 2, 100_000, step=100, **_changed("steps"))
    with st.expander("More choices: alphabet, learning rate, first seed, extra steps"):
        one, two, three, four = st.columns(4)
        one.number_input("Symbols (2: bits)", 2, 64, **_changed("symbols"))
        two.selectbox("Peak learning rate", RATES, format_func=lambda rate: f"{rate:g}", **_changed("rate"))
        three.number_input("First seed", 0, 1_000_000, **_changed("first_seed"))
        four.number_input("Extra steps", 2, 100_000, step=100, **_changed("extra"))
        st.toggle("Measure along the training how many heads could go", **_changed("checkpoints"))
    st.pills(
        "Is it fair? Run controls too",
        list(CONTROLS),
        format_func=lambda name: CONTROLS[name].title,
        selection_mode="multi",
        **_changed("controls"),
    )
    for name in _value("controls"):
        st.caption(f"{CONTROLS[name].title}: {CONTROLS[name].why}")
    try:
        return _study()
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        return None


def _study() -> Study:
    task = Task(numbers(_value("distances"), "the list of distances"), int(_value("symbols")))
    first = int(_value("first_seed"))
    return Study(
        heads=tuple(sorted(_value("heads"))),
        small=int(_value("small")),
        seeds=tuple(range(first, first + int(_value("seeds")))),
        task=task,
        training=Training(int(_value("steps")), learning_rate=float(_value("rate"))),
        architecture=Architecture(1, _value("shape")),
        extra=int(_value("extra")),
        controls=tuple(controls(list(_value("controls")))),
        checkpoints=bool(_value("checkpoints")),
    )


def cost_sentence(study: Study) -> tuple[str, float]:
    """How long a study may take, in words and in seconds: a guess, since the machine is measured when it starts."""
    specs, workers = study.specs(), cores()
    seconds = total_seconds(specs, min(workers, len(specs)))
    at_once = f"{min(workers, len(specs))} at once" if workers > 1 else "one after another"
    return f"{len(specs)} runs, {at_once}: roughly {duration(seconds)} on this machine.", seconds
