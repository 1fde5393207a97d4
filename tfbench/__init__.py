"""Which device and which distribution strategy trains this network fastest, and how sure are we?"""

__version__ = "0.1.0"
