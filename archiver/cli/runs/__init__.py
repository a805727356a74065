"""Commands that measure: run, replay, resume, scenarios, trace, capture."""
