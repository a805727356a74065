"""Helpers that tests of several folders share: commands, servers, and access to what runs leave behind."""
