"""What a user has set for himself."""

from tfbench.schema import PositiveNumber, Text, schema


@schema
class UserSettings:
    """What `config.toml` holds; it counts where neither the command line nor a variable says otherwise."""

    store: Text | None = None
    """Folder of journals, MLflow's database and artifacts."""
    data_dir: Text | None = None
    """Folder of data."""
    price_per_hour: PositiveNumber | None = None
    """Of this machine, in the currency of the recipe."""
    tracking_uri: Text | None = None
    """MLflow server to track to, in place of the store's own database."""
