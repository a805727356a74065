"""How many platforms, how long, how much is kept and at what price, from measured or published rates."""
