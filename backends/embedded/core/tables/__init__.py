"""The catalogue: the SQLite tables of the store, their layouts (`*.sql`), and the queries on them."""
