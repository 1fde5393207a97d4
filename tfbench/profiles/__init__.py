"""The profile of a step: its readings, its figures, and what they say."""
