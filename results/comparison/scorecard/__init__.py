"""The scorecard: conformance, rates, lock cost, durability and resources of several platforms on one page."""
