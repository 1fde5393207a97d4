"""The measured job of a profile: a step taken apart, traced, or held against variants."""
