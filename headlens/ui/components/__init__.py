"""Own Streamlit components."""
