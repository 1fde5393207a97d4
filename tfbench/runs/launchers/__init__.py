"""How a measuring process is started, followed and ended."""
