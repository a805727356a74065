"""Platforms that are started on this machine, and the backend for any platform."""
