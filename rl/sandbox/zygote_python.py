"""How a fork of the zygote's interpreter becomes one that has just started, runs a program, and ends as one does.

It ends by hand: Python's own end visits every object it has, which copies every page that the fork shares, and costs as much
as all the rest. What programs can notice is done, in Python's order: threads, ``atexit``, streams, destructors.
"""

from __future__ import annotations

import builtins
import gc
import os
import sys

from rl.sandbox.namespaces import PROGRAM

_FLUSH_FAILED = 120
"""What Python exits with when it cannot write what is left in stdout."""


def prepare() -> None:
    """Before forks: what exists now is not looked at by their garbage collectors."""
    gc.collect()
    gc.freeze()


def execute(source: bytes, fresh: set[str]) -> None:
    """Does not return. ``fresh``: the modules of a new interpreter."""
    names = _start(fresh)
    status = _result_of(source, names)
    os._exit(_end(names) or status)


def _start(fresh: set[str]) -> dict[str, object]:
    """The names that the program starts with."""
    for name in set(sys.modules) - fresh:
        del sys.modules[name]
    for folder in set(sys.path_importer_cache) - set(sys.path):
        del sys.path_importer_cache[folder]
    module = type(sys)("__main__")
    module.__dict__.update(__file__=PROGRAM, __builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    builtins.__dict__.update(exit=sys.exit, quit=sys.exit)  # as in a program that bubblewrap starts
    sys.argv[:] = [PROGRAM]
    sys.orig_argv[:] = [sys.executable, PROGRAM]
    return module.__dict__


def _result_of(source: bytes, names: dict[str, object]) -> int:
    try:
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), names)  # noqa: S102 (what the box is for)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)  # noqa: T201
        return 1
    except BaseException as error:  # noqa: BLE001
        here = error.__traceback__
        sys.excepthook(type(error), error.with_traceback(here and here.tb_next), here and here.tb_next)
        return 1
    return 0


def _end(names: dict[str, object]) -> int:
    """An exit status that replaces the program's, or 0."""
    threading = sys.modules.get("threading")
    if threading:
        threading._shutdown()
    import atexit

    atexit._run_exitfuncs()
    failed = _flush()
    for name in list(names):
        if name != "__builtins__":
            names[name] = None
    gc.collect()
    return _FLUSH_FAILED if _flush() or failed else 0


def _flush() -> bool:
    """Whether stdout could not be written."""
    failed = False
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError, AttributeError):
            failed |= stream is sys.stdout
    return failed
