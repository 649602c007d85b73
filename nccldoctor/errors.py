"""What the user can mend: the message says how."""


class DoctorError(Exception):
    """Stops the program with `exit_code`; the message is one sentence that says how to mend it."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
