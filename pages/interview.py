"""The interview answer: the question, drills, a mock interview, progress and a cheat sheet."""

import streamlit as st

st.set_page_config(page_title="Interview · HeadLens", page_icon="🔍", layout="wide")

from headlens.ui.interview_page import show  # noqa: E402 - the page's settings come first

show()
