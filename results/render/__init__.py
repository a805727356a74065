"""How documents and tables look: for a terminal, as HTML, as Markdown, as CSV. No renderer knows a subject."""
