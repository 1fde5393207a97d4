"""Opening files of a store that may be pipes, which would be waited for."""

import errno
import os
import stat


def open_at_once(path: str, flags: int) -> int:
    """Opens a file, as `opener` of `open`; a pipe is an `OSError`, and not waited for."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is a pipe, and no file", path)
    return file
