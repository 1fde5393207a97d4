"""Files of runs on disk: journals, briefs, sweeps; the truth, from which all else can be made again."""
