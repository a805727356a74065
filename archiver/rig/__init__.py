"""Platforms that run on this machine: the programs, their servers, and which of them are up."""
