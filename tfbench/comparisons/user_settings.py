"""What a user has set for himself."""

import dataclasses

from tfbench.schema import Currency, Fraction, PositiveNumber, Text, schema

# 2 % on a quiet machine, more on a shared one.
SESSION_SCATTER = 0.05


@schema
class MachineSettings:
    """What a user has set of one of his machines."""

    price_per_hour: PositiveNumber
    """What an hour of it costs."""
    currency: Currency | None = None
    """Of that price; not set: the recipe's."""


@schema
class UserSettings:
    """What `config.toml` holds."""

    session_scatter: Fraction = SESSION_SCATTER
    """By which share the speed of a machine drifts from one session to the next."""
    machines: dict[Text, MachineSettings] = dataclasses.field(default_factory=dict)
    """Machines by host name, or by the name in a setup ("default gpu:0 @a100")."""


NO_SETTINGS = UserSettings()
