"""Pruning for real: curve, budget, cut, speed, recovery, download."""

import streamlit as st

st.set_page_config(page_title="Prune · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.prune_page import show  # noqa: E402 - the page's settings come first

show()
