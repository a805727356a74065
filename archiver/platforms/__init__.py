"""Starts platforms on this machine, and makes the backend for any platform."""
