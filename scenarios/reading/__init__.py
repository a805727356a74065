"""From a TOML file to a scenario, or to one message that says what to correct."""
