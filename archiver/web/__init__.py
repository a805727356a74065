"""The pages of `archiver web`: runs, live figures, reports, comparisons, plans and the ledger. They only read."""
