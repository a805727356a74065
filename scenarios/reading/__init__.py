"""Reading of a TOML file as a scenario, or as messages that name what to correct."""
