"""How long devices take to add values up over all of them, as measured, in processes of their own."""

from tfbench.schema import Count, PositiveNumber, Text, schema

Sizes = tuple[Count, ...]  # bytes of the array that each device holds
_FEWEST_SIZES = 3  # that two costs and their misfit can be told from


@schema
class LinkQuestion:
    """What a process is to measure."""

    devices: tuple[Text, ...]
    sizes: Sizes
    num_repeats: Count


@schema
class LinkAnswer:
    """What it measured: the median seconds of an addition over all devices, by size."""

    hardware: str
    devices: tuple[Text, ...]
    seconds: tuple[PositiveNumber, ...]


@schema
class LinkMeasurement:
    """What several processes measured, one after the other, of the same devices; raw."""

    created: float  # seconds since 1970, UTC
    tfbench: str  # version
    backend: Text
    hostname: str
    hardware: str  # of a device
    devices: tuple[Text, ...]
    sizes: Sizes
    seconds: tuple[tuple[PositiveNumber, ...], ...]  # by process and size

    def __post_init__(self) -> None:
        if len(self.devices) < 2 or not self.seconds or any(len(row) != len(self.sizes) for row in self.seconds):
            raise ValueError("a link needs two devices or more, and a time for each size in each process.")
        if len(self.sizes) < _FEWEST_SIZES:
            raise ValueError(f"sizes: a link needs {_FEWEST_SIZES} or more. Received: {len(self.sizes)}.")

    @property
    def is_of_logical_devices(self) -> bool:
        """Whether the devices are parts of one processor, so that nothing lies between them."""
        return self.devices[0].startswith("cpu")
