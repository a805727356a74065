"""The TSM client library: its declarations, its calls, its codes, and its configuration files."""
