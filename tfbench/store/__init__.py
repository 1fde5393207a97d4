"""Files of runs on disk: journals, briefs, sweeps, noise floors; the truth, from which all else can be made again."""
