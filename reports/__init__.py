"""Reports: numbers and pictures of finished runs, as pure functions."""
