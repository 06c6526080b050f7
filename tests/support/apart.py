"""A thread of its own, for what cannot be done beside a browser.

While Playwright has a browser open, an event loop runs in the tests' own thread, on a stack of its
own: no other loop can run there, and Python 3.11 fails to compile modules.
"""

from concurrent.futures import ThreadPoolExecutor

__all__ = ["apart"]


def apart(function, *arguments, **options):
    """Call a function in a new thread; its result, or what it raises."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments, **options).result()
