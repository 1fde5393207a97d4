"""What all texts share: tables, figures and formats."""
