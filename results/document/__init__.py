"""What every subject is shown as: tables, figures and documents, and how they look. It knows no subject."""
