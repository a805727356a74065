"""The version of Archiver, recorded with every run and bundle."""

VERSION = "0.1.0"
