"""Archiver: measures archive/retention (WORM) object stores."""

__version__ = "0.1.0"
