"""Platforms that Archiver starts on this machine, and how a backend for any platform is made."""
