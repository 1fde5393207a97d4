"""Where samples come from.

Publishers' files, prepared data sets, a user's arrays, or a stand-in.
"""
