"""A run in progress: figures on a terminal or for Prometheus."""
