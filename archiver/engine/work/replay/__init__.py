"""Traces carried out again, and infrastructure operations next to them."""
