"""The report: one HTML file that says what was done to a model, what it costs and what it brings, with error bars."""
