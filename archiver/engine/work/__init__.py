"""Kinds of work: how each is assigned to workers, carried out and counted."""
