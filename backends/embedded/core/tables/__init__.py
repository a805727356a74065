"""The catalogue: the SQLite tables of the store, their definitions (`*.sql`), and the queries on them."""
