"""Results of a run: values, tables, figures and documents, and the published study for comparison.

This package imports neither the engine nor a platform. Callers import the modules that draw (``results.figures``,
``results.report.documents``) by name where they use them, because matplotlib takes longer to load than most commands
take to run.
"""
