"""A run in progress: values on a terminal or for Prometheus."""
