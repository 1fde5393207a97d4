"""Files of runs on disk: journals, briefs, sweeps.

The truth, from which all else can be made again.
"""
