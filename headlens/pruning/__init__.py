"""Pruning: which heads go, in what order, what that costs, and the cut itself."""
