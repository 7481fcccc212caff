"""Runs the code of one call, inside Pyodide: as a main module that can print and fail, and nothing more."""

import asyncio
import gc
import linecache
import sys
import time
import traceback
import types

FILE_NAME = "main.py"
MAX_FRAMES = 20

# Modules that would reach JavaScript. To import one is an ordinary error; to use one that is found some other way ends the run.
BRIDGES = ("js", "pyodide_js", "pyodide", "_pyodide", "_pyodide_core", "_ctypes", "ctypes")


class Selector:
    """Waits in place of a selector: there is no socket here, so only a timer can wake the loop."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("The event loop waits for something that cannot happen here.")
        time.sleep(max(timeout, 0))
        return []


class Loop(asyncio.BaseEventLoop):
    """An event loop of timers and callbacks. Pyodide's own belongs to JavaScript."""

    def __init__(self):
        super().__init__()
        self._selector = Selector()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


def close_bridges():
    """Takes JavaScript out of the reach of import, so that code is told what is missing. The wall itself is gate.ts."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if "pyodide" not in repr(finder)]
    for name in list(sys.modules):
        if name.partition(".")[0] in BRIDGES:
            del sys.modules[name]
    for name in BRIDGES:
        sys.modules[name] = None
    # Pyodide put versions of its own in the place of these.
    asyncio.run = asyncio.runners.run
    time.sleep = time.sleep.__wrapped__
    # Python may start from a snapshot, which would draw the same numbers in every run.
    if "random" in sys.modules:
        sys.modules["random"].seed()
    asyncio.events._set_running_loop(None)
    asyncio.events._set_event_loop_policy(None)
    type(asyncio.events._get_event_loop_policy())._loop_factory = Loop
    gc.collect()


def run(code):
    """Runs code as the main module, and says whether it ended well."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv[:] = [FILE_NAME]
    # Tracebacks show lines of code only of files that they find here.
    linecache.cache[FILE_NAME] = (len(code), None, code.splitlines(keepends=True), FILE_NAME)
    try:
        exec(compile(code, FILE_NAME, "exec"), main.__dict__)
        return True
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        return end.code is None or end.code == 0
    except BaseException as error:
        if isinstance(error, MemoryError):
            # To show the traceback takes memory too.
            main.__dict__.clear()
            traceback.clear_frames(error.__traceback__)
        traceback.print_exception(type(error), error, error.__traceback__.tb_next, limit=-MAX_FRAMES)
        return False


def ready(code):
    """Returns a function that runs the code. The function takes no arguments: once the gate is closed, none come from JavaScript."""
    return lambda: run(code)
