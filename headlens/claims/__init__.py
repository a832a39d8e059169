"""Each sentence of the textbook answer on head pruning, as a check that runs on the model at hand."""
