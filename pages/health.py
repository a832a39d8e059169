"""How the server is: lines, models in memory, store, uptime, versions, limits."""

import streamlit as st

st.set_page_config(page_title="Server · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.health_page import show  # noqa: E402 - the page's settings come first

show()
