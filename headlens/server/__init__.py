"""What a server that many people share needs, without any page: limits, turns, shared results and models, logs."""
