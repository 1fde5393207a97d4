"""What is asked for.

Sections of a recipe, the files and tables that they are read from, and names.
"""
