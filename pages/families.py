"""Families: the same few figures for every model at hand, side by side."""

import streamlit as st

st.set_page_config(page_title="Families · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.families_page import show  # noqa: E402 - the page's settings come first

show()
