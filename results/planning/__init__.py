"""Plans: platforms, durations, capacity and prices, from measured or published rates."""
