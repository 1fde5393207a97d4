"""What the measuring process sends to the reports: records, journals, and how files are written."""
