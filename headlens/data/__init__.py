"""Data in, batches out: built-in sets, files of the user, tokenised examples."""
