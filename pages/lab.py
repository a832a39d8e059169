"""The over-provisioning lab: few heads from scratch against few kept of many."""

import streamlit as st

st.set_page_config(page_title="Lab · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.lab_page import show  # noqa: E402 - the page's settings come first

show()
