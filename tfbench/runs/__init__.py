"""One run from request to stored result, and runs in a row."""
