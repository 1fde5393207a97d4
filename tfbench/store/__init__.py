"""Files of runs on disk: journals, briefs, sweeps. All else can be made from them again."""
