"""Values that every package shares. They import nothing of the project but each other."""
