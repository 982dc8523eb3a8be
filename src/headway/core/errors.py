"""The one error that is the user's to fix."""

from __future__ import annotations


class HeadwayError(ValueError):
    """A user's mistake or unusable input: a file, a field, a name, a value.

    The message is complete by itself: it names the file, the field or node, what was found there
    and what would be accepted. The command line prints it without a traceback and exits with
    status 2; anything else that is raised is a defect of Headway.
    """
