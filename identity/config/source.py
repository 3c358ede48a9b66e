"""Reads the configuration file and environment variables, and reports the position of every problem.

The file is parsed to YAML nodes instead of values, because only nodes have line numbers.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from identity.config.validation import Described, schema, settings, value_problems

FILE_NAME: Final = "identity.yaml"
ENVIRONMENT_PREFIX: Final = "IDENTITY__"
_SINGLE_PREFIX: Final = "IDENTITY_"
_OTHER_VARIABLES: Final = ("IDENTITY_URL", "IDENTITY_API_KEY", "IDENTITY_SECRET_")
"""What begins with the single prefix and is no setting: the options of commands, and secrets of exported objects."""
_LIKENESS: Final = 0.9
"""How similar a name without double underscores must be to that of a setting to count as one."""
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://\S*")
"""The value of variables that Docker and Kubernetes set for a service with the name `identity` or `identity-server`."""


def file_values(file: Path, problems: list[str]) -> dict[str, Any]:
    """The values of the file; appends to `problems`."""
    try:
        node = yaml.compose(file.read_text("utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        problems.append(f"{file}: there is no such file; set --config to the folder that contains {FILE_NAME}")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file}: cannot be read ({error}); it must be UTF-8 text that this user may read")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(f"{file}:{line}: is not YAML: {error.problem}; check indentation, quotes and brackets there")
    else:
        if node is not None:
            return _mapping(node, schema(), _Position(str(file), ""), problems)
    return {}


@dataclasses.dataclass(frozen=True, slots=True)
class _Position:
    file: str
    key: str

    def child(self, name: str) -> _Position:
        return _Position(self.file, f"{self.key}.{name}" if self.key else name)

    def problem(self, node: yaml.Node, text: str) -> str:
        line = node.start_mark.line + 1
        return f"{self.file}:{line}: {self.key}: {text}" if self.key else f"{self.file}:{line}: {text}"


def _mapping(node: yaml.Node, described: Described, position: _Position, problems: list[str]) -> dict[str, Any]:
    if node.tag == "tag:yaml.org,2002:null":  # every key of the section is commented out
        return {}
    if not isinstance(node, yaml.MappingNode):
        problems.append(position.problem(node, f"must be a map; put one of {_listed(described)} below it"))
        return {}
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        name = str(key_node.value)
        at = position.child(name)
        child = described["properties"].get(name)
        if child is None:
            problems.append(at.problem(key_node, f"there is no such setting; {_suggestion(name, described)}"))
        elif name in values:
            problems.append(at.problem(key_node, "is given twice; remove one of the two"))
        elif "properties" in child:
            values[name] = _mapping(value_node, child, at, problems)
        else:
            values[name] = _construct(value_node)
            problems.extend(at.problem(value_node, problem) for problem in value_problems(values[name], child))
    return values


def _construct(node: yaml.Node) -> Any:
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_document(node)
    except yaml.YAMLError:
        return _Unreadable()
    finally:
        constructor.dispose()


class _Unreadable:
    """A value that YAML cannot construct, such as one with an unknown tag; no schema accepts it."""

    def __repr__(self) -> str:
        return "an unreadable value"


def override(values: dict[str, Any], environ: Mapping[str, str], problems: list[str]) -> None:
    """Override values by environment variables; appends to `problems`."""
    problems.extend(_misspelled(environ))
    for variable in sorted(v for v in environ if v.startswith(ENVIRONMENT_PREFIX)):
        path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        described = dict(settings()).get(".".join(path))
        if described is None:
            known = [ENVIRONMENT_PREFIX + key.upper().replace(".", "__") for key, _ in settings()]
            problems.append(f"environment: {variable}: there is no such setting; {_nearest(variable, known)}")
            continue
        value = _from_text(environ[variable], described)
        problems.extend(f"environment: {variable}: {problem}" for problem in value_problems(value, described))
        target = functools.reduce(lambda at, name: at.setdefault(name, {}), path[:-1], values)
        target[path[-1]] = value


def _misspelled(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that would be ignored although they look like a setting: IDENTITY_SERVER__PORT.

    Other programs have variables with the prefix IDENTITY_, such as IDENTITY_ENDPOINT in Azure: only names with double
    underscores, and those that are nearly the name of a setting, are reported.
    """
    known = {key.upper().replace(".", "_"): key for key, _ in settings()}
    for variable in sorted(environ):
        is_single = variable.startswith(_SINGLE_PREFIX) and not variable.startswith(ENVIRONMENT_PREFIX)
        if not is_single or variable.startswith(_OTHER_VARIABLES) or _SERVICE_LINK.fullmatch(environ[variable]):
            continue
        name = re.sub("_+", "_", variable.removeprefix(_SINGLE_PREFIX))
        is_meant = "__" in variable.removeprefix(_SINGLE_PREFIX)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6 if is_meant else _LIKENESS)
        if near or is_meant:
            meant = f"{ENVIRONMENT_PREFIX}{known[near[0]].upper().replace('.', '__')}" if near else None
            remedy = f"did you mean {meant}?" if meant else f"settings begin with {ENVIRONMENT_PREFIX}"
            yield f"environment: {variable}: there is no such setting; {remedy}"


def _from_text(text: str, described: Described) -> Any:
    """The value of a variable: parsed as YAML, or the plain text if the setting is a text and YAML gives no text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    is_text = "string" in described.get("type", ())
    return text if is_text and (value is not None or text == "") and not isinstance(value, str) else value


def _listed(described: Described) -> str:
    return ", ".join(described["properties"])


def _suggestion(name: str, described: Described) -> str:
    return _nearest(name, list(described["properties"]))


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"remove it, or use one of {', '.join(known)}"
