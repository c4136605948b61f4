"""The one exception that a user is meant to see."""


class LaunchbenchError(Exception):
    """Something the user can act on.

    Every line of the message is complete on its own (file, key, value, what was expected), and the
    command line prints it without a traceback.
    """
