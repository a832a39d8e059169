"""Switches for heads, and what they do to loss and text."""

import streamlit as st

st.set_page_config(page_title="Switchboard · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.switchboard_page import show  # noqa: E402 - the page's settings come first

show()
