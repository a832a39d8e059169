"""Claims: each sentence of the textbook answer, checked on the chosen model."""

import streamlit as st

st.set_page_config(page_title="Claims · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.claims_page import show  # noqa: E402 - the page's settings come first

show()
