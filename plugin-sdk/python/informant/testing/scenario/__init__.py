"""Runs scenario files, which ``informant plugin test`` runs, too. They need PyYAML."""

from __future__ import annotations

import os
import sys

from .format import read_scenario
from .nodes import ScenarioError
from .run import Run

__all__ = ["ScenarioError", "run_scenario"]


def run_scenario(file: str | os.PathLike[str], plugin: str | os.PathLike[str] | None = None) -> None:
    """Runs the scenario in a file. ``plugin`` replaces its ``path``.

    Both are relative to the file that calls this function. Raises an ``AssertionError`` that lists all that differs,
    and a ``ScenarioError`` for what is wrong with the file, or what only ``informant plugin test`` can do.
    """
    folder = os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))
    path = None if plugin is None else os.path.join(folder, os.fspath(plugin))
    differences = Run(read_scenario(os.path.join(folder, os.fspath(file)), path)).all()
    if differences:
        raise AssertionError("\n".join(differences))
