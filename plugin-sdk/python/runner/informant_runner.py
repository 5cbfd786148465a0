"""The runner of Python scripts: a plugin that reads its program from stdin, as interpreters do.

Its first argument is the name of the script's file. It contains the SDK, the standard library as far as it works in a
component, and PyYAML. What is not imported here cannot be imported by a script.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

from informant import blocked, component, script
from informant.component import EventHandler, IndexFuncs, Lifecycle, State, SyncHandler
from informant.dispatch import Dispatcher, Failed
from informant.failure import Failure

__all__ = ["EventHandler", "IndexFuncs", "Lifecycle", "State", "SyncHandler"]

#: The modules that scripts can import.
MODULES = """
    __future__ abc argparse array ast base64 binascii bisect calendar cmath codecs collections collections.abc
    configparser contextlib contextvars copy csv dataclasses datetime decimal difflib email email.message email.policy
    email.utils enum errno fnmatch fractions functools gc graphlib hashlib heapq hmac html html.parser importlib inspect
    io ipaddress itertools json keyword linecache locale logging logging.handlers math numbers operator os os.path
    pathlib pickle posixpath pprint queue random re reprlib secrets shlex stat statistics string struct sys tempfile
    textwrap time timeit tokenize token tomllib traceback types typing unicodedata unittest unittest.mock urllib
    urllib.error urllib.parse uuid warnings weakref xml xml.dom xml.dom.minidom xml.etree xml.etree.ElementTree yaml
    zlib zoneinfo
""".split()

#: Text encodings, which Python loads by name.
ENCODINGS = """
    ascii base64_codec cp1252 cp437 hex_codec idna iso8859_1 iso8859_15 latin_1 punycode quopri_codec
    raw_unicode_escape rot_13 undefined unicode_escape utf_16 utf_16_be utf_16_le utf_32 utf_8 utf_8_sig
""".split()

#: Nested calls after which Python raises RecursionError. More would exhaust the stack of the component, a trap.
RECURSION_MAX = 400


def load(context: dict[str, Any]) -> Dispatcher:
    """Runs the script in stdin."""
    if len(sys.argv) < 2:
        raise Failed(Failure("permanent", "the script has no name: pass it as the first argument"))
    name = sys.argv[1]
    text = sys.stdin.buffer.read()
    sys.setrecursionlimit(RECURSION_MAX)
    dispatcher = script.load(name, text, context)
    return dispatcher


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
