"""What several devices that train one network exchange in a step: counts, and what they would cost."""
