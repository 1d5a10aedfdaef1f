"""Makes the wheel without the engine, for platforms that have no wheel of their own: ``python tools/pure.py WHEEL OUT``.

pip prefers the wheel of a platform. Without one it takes this wheel, which works with a server.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import sys
import zipfile


def is_kept(name: str) -> bool:
    """Whether a file is the same on every platform."""
    return not (name.startswith("goldseam/_native.") and not name.endswith(".pyi")) and ".data/" not in name and ".libs/" not in name


def tagged(text: str) -> str:
    """The file WHEEL for every platform."""
    lines = [line for line in text.splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    return "\n".join([*(line for line in lines if line), "Root-Is-Purelib: true", "Tag: py3-none-any", ""])


def pure(wheel: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Writes the wheel into a folder, and returns its path."""
    name, version = wheel.name.split("-")[:2]
    out.mkdir(parents=True, exist_ok=True)
    made = out / f"{name}-{version}-py3-none-any.whl"
    record = f"{name}-{version}.dist-info/RECORD"
    listed: list[str] = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.is_dir() or entry.filename == record or not is_kept(entry.filename):
                continue
            content = old.read(entry)
            if entry.filename.endswith(".dist-info/WHEEL"):
                content = tagged(content.decode()).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            listed.append(f"{entry.filename},sha256={digest},{len(content)}")
            info = zipfile.ZipInfo(entry.filename, entry.date_time)
            info.external_attr = entry.external_attr
            new.writestr(info, content, zipfile.ZIP_DEFLATED)
        new.writestr(record, "\n".join([*listed, f"{record},,", ""]))
    return made


if __name__ == "__main__":
    print(pure(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
