"""Kinds of work: how each is shared out, carried out and counted."""
