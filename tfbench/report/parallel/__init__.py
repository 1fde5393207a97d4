"""The ways to spread a network over devices, as text and JSON."""
