"""Values that every package shares. They import nothing else of the project."""
