"""The lab: can one learn with as few heads as one can keep? Measured live, and what others have measured."""

from __future__ import annotations

import streamlit as st

from headlens.errors import HeadlensError
from headlens.ui import inputs, lab_experiment, lab_initial, lab_language, lab_literature, lab_training, state, words
from headlens.ui.sidebar import Opened, refresh, sidebar_with_lens

SECTIONS = ("Experiment", "During training", "Language model", "Sharing", "At initialisation", "Literature")


def show() -> None:
    """Draws the page; it works without a model too."""
    opened = sidebar_with_lens("lab")
    st.title("Learn with few heads, or keep few of many?")
    titles = {name: name for name in SECTIONS}
    section = inputs.choice("Part of this page", "lab_section", titles, show_label=False)
    try:
        _draw(section, opened)
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
    if opened is not None and opened.chosen is not None:
        refresh(opened.chosen)
    else:
        state.publish_url()
    state.whole_page(False)


def _draw(section: str, opened: Opened | None) -> None:
    if section == "During training":
        lab_training.show()
    elif section == "Language model":
        lab_language.show()
    elif section == "Sharing":
        lab_language.show_sharing()
    elif section == "At initialisation":
        lab_initial.show(None if opened is None else opened.lens)
    elif section == "Literature":
        lab_literature.show()
    else:
        lab_experiment.show()
