"""Attention patterns for a prompt."""

import streamlit as st

st.set_page_config(page_title="Attention · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.attention_page import show  # noqa: E402 - the page's settings come first

show()
