"""What flows from the measuring process to the reports and is kept.

Records, journals, and how files are written.
"""
