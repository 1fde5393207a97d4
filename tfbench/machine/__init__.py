"""What the machine is and does; nothing here knows a framework."""
