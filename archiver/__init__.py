"""Archiver: measures archive/retention (WORM) object stores."""
