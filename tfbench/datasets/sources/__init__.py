"""Where samples come from: publishers' files, prepared data sets, a user's arrays, or a stand-in."""
