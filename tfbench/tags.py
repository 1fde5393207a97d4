"""The names of all tags that tfbench gives to runs, in journals and in MLflow."""

# Of a run that is one of several.
GROUP_TAG = "tfbench.group"  # repeats, a check, or the trials of one `--fast`
REPEAT_TAG = "tfbench.repeat"  # number within the group, from 1 on
SWEEP_TAG = "tfbench.sweep"
CONFIGURATION_TAG = "tfbench.setting"  # number; named as in older stores
SETUP_TAG = "tfbench.setup"  # label of the strategy and its devices
ROUND_TAG = "tfbench.round"  # number, from 1 on
REPEATS_TAG = "tfbench.repeats"  # "3..20", of a sweep that adds rounds until it is decided
SESSION_TAG = "tfbench.session"  # of the command that made it; a sweep that is resumed has several
SERIES_TAGS = (
    GROUP_TAG,
    REPEAT_TAG,
    SETUP_TAG,
    ROUND_TAG,
    REPEATS_TAG,
    SWEEP_TAG,
    CONFIGURATION_TAG,
    SESSION_TAG,
)
RESUMED_FROM_TAG = "tfbench.resumed_from"  # id of the run that this one continues
DRY_RUN_TAG = "tfbench.dry_run"  # of a run that ends before its first step

# Of `--fast`, which chooses values of [training] by short runs.
FAST_TAG = "tfbench.fast"  # group of the short runs
TRIAL_TAG = "tfbench.trial"  # of a short run: its number
AS_ASKED_TAG = "tfbench.fast_as_asked"  # samples/s of the unchanged recipe in a short run
CHANGED_TAG = "tfbench.fast_changed"  # keys that were set otherwise, with blanks between

# In MLflow alone: what a run is and came to.
RUN_TAG = "tfbench.run_id"
RECIPE_TAG = "tfbench.recipe"
PROFILE_TAG = "tfbench.profile"  # kind of the profile
RESULT_TAG = "tfbench.result"  # in words, of a run or of a setup of a sweep
WARNINGS_TAG = "tfbench.warnings"
REASON_TAG = "tfbench.reason"  # why a run failed
SYNTHETIC_TAG = "tfbench.synthetic"
DATA_TAG = "tfbench.data"
HARDWARE_TAG = "tfbench.hardware"
HOST_TAG = "tfbench.host"
CPU_TAG = "tfbench.cpu"
DRIVER_TAG = "tfbench.driver"
CUDA_TAG = "tfbench.cuda"
VERSION_TAG = "tfbench.version"
INSTANCE_TAG = "tfbench.instance"  # rented machine
CURRENCY_TAG = "tfbench.currency"
CURVE_TAG = "tfbench.curve"  # digest of what was drawn; a curve that changes is made anew
