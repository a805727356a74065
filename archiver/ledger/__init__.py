"""The record of everything that runs left behind, and its removal."""
