"""The one exception that stands for a mistake of the user."""


class UserError(ValueError):
    """A wrong option, file or combination; shown without a traceback.

    The message has four parts: which option or file, what it was, what is
    allowed, and what to do. `options.run_script` prints it and exits with
    status 2.
    """
