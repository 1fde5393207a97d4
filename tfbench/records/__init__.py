"""What flows from the measuring process to the reports and is kept: records, journals, and how files are written."""
