"""The measured job of a profile: a step taken apart, or traced."""
