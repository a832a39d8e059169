"""The same few figures for every model at hand, side by side, with the published number beside each."""
