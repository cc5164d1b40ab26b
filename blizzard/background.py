"""Work beside that of the caller, which nobody has to wait for."""

import threading
from collections.abc import Callable


class Background:
    """Begins at once: in a thread of its own, or in the caller's if it is not to be `in_background`. A process that
    ends meanwhile does not wait for it."""

    def __init__(self, work: Callable[[], None], *, name: str, in_background: bool) -> None:
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        if in_background:
            self._thread.start()
        else:
            work()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()
