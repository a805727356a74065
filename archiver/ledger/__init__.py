"""Records everything that runs left on platforms, and removes it."""
