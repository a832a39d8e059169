"""HeadLens, first page: which heads of the chosen model matter."""

import streamlit as st

st.set_page_config(page_title="HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.heads_page import show  # noqa: E402 - the page's settings come first

show()
