"""What is asked for: sections of a recipe, the files and tables that they are read from, and names."""
