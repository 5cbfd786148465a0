"""The runner of Python scripts: a plugin that reads its program from stdin, as interpreters do.

Its first argument is the name of the script's file. It contains the SDK, the standard library as far as it works in a
component, and PyYAML. What is not imported here cannot be imported by a script.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import sys
from types import CodeType
from typing import Any


def _code_without_docstrings(loader: Any, module: str) -> CodeType:
    """The code of a module as with ``python -OO``: without docstrings and asserts. Scripts keep both.

    Without it, and with what Python allocates to cache code in files, an instance has 15.6 MiB of memory, not 14.2.
    """
    path = loader.get_filename(module)
    return compile(loader.get_data(path), path, "exec", dont_inherit=True, optimize=2)


# Before anything else is imported. It neither reads nor writes the code that Python caches next to the sources.
importlib.machinery.SourceFileLoader.get_code = _code_without_docstrings  # type: ignore[assignment]

from informant import blocked, component, failure, script
from informant.component import EventHandler, IndexFuncs, Lifecycle, Reconciler, State, SyncHandler, TimerHandler
from informant.dispatch import Dispatcher, Failed
from informant.failure import Failure

__all__ = ["EventHandler", "IndexFuncs", "Lifecycle", "Reconciler", "State", "SyncHandler", "TimerHandler"]

#: The modules that scripts can import.
MODULES = """
    __future__ abc array ast base64 binascii bisect calendar cmath codecs collections collections.abc
    configparser contextlib copy csv dataclasses datetime decimal difflib email.utils enum errno fnmatch fractions
    functools gc graphlib hashlib heapq hmac inspect io ipaddress itertools json keyword linecache logging math
    numbers operator os os.path pprint random re reprlib secrets shlex stat statistics string struct sys
    textwrap time tomllib traceback types typing unicodedata urllib urllib.parse uuid warnings weakref
    xml.etree.ElementTree yaml zlib
""".split()

#: Text encodings, which Python loads by name.
ENCODINGS = """
    ascii cp1252 idna iso8859_1 latin_1 punycode raw_unicode_escape unicode_escape utf_16 utf_16_be utf_16_le utf_32
    utf_8 utf_8_sig
""".split()

#: Nested calls after which Python raises RecursionError. Calls that pass through C need most: with more than 200 they
#: exhaust the 512 KiB of stack that Informant provides, which is a trap.
RECURSION_MAX = 200


def load(context: dict[str, Any]) -> Dispatcher:
    """Runs the script in stdin."""
    if len(sys.argv) < 2:
        raise Failed(Failure("permanent", "the script has no name: pass it as the first argument"))
    name = sys.argv[1]
    text = sys.stdin.buffer.read()
    sys.setrecursionlimit(RECURSION_MAX)
    failure.use_own(lambda file: file == name)
    return script.load(name, text, context)


def _represent_objects_as_dicts() -> None:
    """PyYAML writes dicts, and refuses classes that derive from it."""
    import yaml

    from informant import Fields, Object

    for dumper in (yaml.SafeDumper, yaml.Dumper):
        for type in (Fields, Object):
            dumper.add_representer(type, yaml.representer.SafeRepresenter.represent_dict)


for module in [*MODULES, *(f"encodings.{name}" for name in ENCODINGS)]:
    importlib.import_module(module)
_represent_objects_as_dicts()
component.loader = load
blocked.install(lambda globals: globals.get("__name__") == script.MODULE)
# The snapshot of this state is shared by all instances: the collector writes into what it visits.
gc.collect()
gc.freeze()
