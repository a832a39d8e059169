"""The web app: the only package that imports Streamlit."""
