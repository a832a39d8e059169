"""Learning the interview answer: questions as data, drills that come back, a mock interview, a cheat sheet."""
