"""The report of a run: sections, one page or a folder of documents; and the page that lists runs."""
