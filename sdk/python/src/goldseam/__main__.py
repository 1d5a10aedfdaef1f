"""The command line: ``python -m goldseam …`` runs the ``goldseam`` command that the package carries."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def binary() -> str | None:
    """Returns the path of the command."""
    name = "goldseam.exe" if os.name == "nt" else "goldseam"
    for scheme in (sysconfig.get_path("scripts"), os.path.join(os.path.expanduser("~"), ".local", "bin")):
        path = os.path.join(scheme, name)
        if os.path.isfile(path):
            return path
    return shutil.which("goldseam")


def main() -> None:
    """Replaces this process by the command."""
    path = binary()
    if path is None:
        sys.exit("this installation has no goldseam command (GS0635); install a package for this platform")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
