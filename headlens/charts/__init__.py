"""Results in, plotly figures out; nothing here knows Streamlit or torch."""
