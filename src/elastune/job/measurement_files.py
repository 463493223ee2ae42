"""Text files that a user names, with errors that say what is wrong with them.

A file of measurements is JSON: the latencies of single iterations per number of slots. This module decides
what it may hold; `elastune.model.profile.fit_profile` makes the fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from elastune.errors import JobError
from elastune.job.section import MisfitError
from elastune.model.configuration import NotPlainError, plain_value
from elastune.model.profile import Profile, fit_profile
from elastune.model.quantities import ExpectedError, duration, factor, spread, whole
from elastune.model.speeds import ConfigSpeed, settings_of
from elastune.wording import did_you_mean, either, seen


def read_text(path: str | Path, what: str) -> str:
    """The text of the file; a byte order mark is dropped."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise JobError(f"{path}: there is no such file; expected a {what}") from None
    except IsADirectoryError:
        raise JobError(f"{path}: this is a folder; expected a {what}") from None
    except UnicodeDecodeError as error:
        raise JobError(f"{path}: not UTF-8 text (byte {error.start + 1}); expected a {what}") from None
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise JobError(f"{str(path)!r}: not the name of a file") from None


_OTHER_KEYS = ("startup", "save", "sync")
# Keys of a measurement that say nothing about the speed of the training.
_NOTES = ("boot", "queue", "key", "checkpoint_bytes", "unmeasured")


def read_measurements(path: str | Path) -> Profile:
    """Read and fit. Errors name the file and the place in it."""
    text = read_text(path, "file of measurements")
    try:
        return _fit(json.loads(text, object_pairs_hook=_without_duplicates))
    except json.JSONDecodeError as error:
        raise JobError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    except RecursionError:
        raise JobError(f"{path}: nested too deeply for a file of measurements") from None
    # A number of thousands of digits is a ValueError of Python, not of the JSON module.
    except (JobError, ValueError) as error:
        raise JobError(f"{path}: {error}") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise JobError(f"{seen(next(key for key in keys if keys.count(key) > 1))} is given twice")
    return dict(pairs)


def _fit(content: object) -> Profile:
    if not isinstance(content, dict) or not content:
        raise JobError('expected a mapping of slots to lists of latencies, such as {"1": [60.1, 59.7]}')
    sections = content if "iteration" in content else {"iteration": content}
    known = ("iteration", "spread", "speeds", *_OTHER_KEYS)
    for key in sections:
        if key not in (*known, *_NOTES):
            expected = f"{either(known)}{did_you_mean(key, known)}"
            raise JobError(f"{seen(key)} is not a key of the measurements; expected {expected}")
    iteration = sections["iteration"]
    if not isinstance(iteration, dict):
        raise JobError('iteration: expected a mapping of slots to lists, such as {"1": [60.1, 59.7]}')
    latencies = {name: _latencies(sections.get(name, 0.0), name) for name in _OTHER_KEYS}
    return fit_profile(
        _iterations(iteration),
        **latencies,
        spread=_spread(sections.get("spread", 0.0)),
        speeds=_speeds(sections.get("speeds", [])),
    )


def _iterations(iteration: dict[str, object]) -> dict[int, Sequence[float]]:
    measured: dict[int, Sequence[float]] = {}
    for key, values in iteration.items():
        try:
            slots = whole(key, least=1, most=1_000_000)
        except ExpectedError as error:
            expected = f"{error}{did_you_mean(key, ('iteration', *_OTHER_KEYS))}"
            raise JobError(f"{seen(key)} is not a number of slots; expected {expected}") from None
        name = f"iterations on {key} slot{'s' if slots > 1 else ''}"
        if slots in measured:
            raise JobError(f"{name}: given twice")
        if not isinstance(values, list):
            raise JobError(f"{name}: expected a list of latencies, such as [60.1, 59.7]")
        measured[slots] = _latencies(values, name)
    return measured


def _latencies(written: object, name: str) -> list[float]:
    """A list of durations; a single one is a list of one."""
    values = written if isinstance(written, list) else [written]
    seconds: list[float] = []
    for position, value in enumerate(values, start=1):
        try:
            seconds.append(duration(value))
        except ExpectedError as error:
            place = f"{name}: value {position}" if isinstance(written, list) else name
            raise JobError(f"{place} is {seen(value)}; expected {error}") from None
    return seconds


def _spread(written: object) -> float:
    try:
        return spread(written)
    except ExpectedError as error:
        raise JobError(f"spread is {seen(written)}; expected {error}") from None


def _speeds(written: object) -> tuple[ConfigSpeed, ...]:
    try:
        return parse_speeds(written)
    except ExpectedError as error:
        raise JobError(f"speeds is {seen(written)}; expected {error}") from None
    except MisfitError as error:
        raise JobError(f"{'.'.join(('speeds', *error.path))} {error}") from None


def parse_speeds(written: object) -> tuple[ConfigSpeed, ...]:
    """From a list of mappings, as in a job. Errors have the path to the value."""
    if not isinstance(written, list | tuple):
        raise ExpectedError("a list of measured configurations, such as [{config: {width: 64}, factor: 0.5}]")
    return tuple(_config_speed(each, str(place)) for place, each in enumerate(written))


def _config_speed(written: object, place: str) -> ConfigSpeed:
    if isinstance(written, ConfigSpeed):
        return written
    if not isinstance(written, Mapping):
        raise MisfitError((place,), f"is {seen(written)}; expected {{config: {{width: 64}}, factor: 0.5}}")
    known = ("config", "factor", "weight")
    for key in written:
        if key not in known:
            raise MisfitError((place, str(key)), f"is not a key of it; expected {either(known)}")
    for key in ("config", "factor"):
        if key not in written:
            raise MisfitError((place, key), "is missing; expected a configuration and its factor")
    config = written["config"]
    if not isinstance(config, Mapping):
        raise MisfitError((place, "config"), f"is {seen(config)}; expected hyperparameters by name")
    try:
        settings = settings_of(
            {str(name): plain_value(value, (str(name),)) for name, value in config.items()}
        )
    except NotPlainError as error:
        expected = "text, a finite number, true, false or null, or lists and mappings of them"
        text = f"is {seen(error.part)}; expected {expected}"
        raise MisfitError((place, "config", *error.path), text) from None
    return ConfigSpeed(
        settings,
        _positive(written["factor"], (place, "factor")),
        _positive(written.get("weight", 1.0), (place, "weight")),
    )


def _positive(written: object, path: tuple[str, ...]) -> float:
    try:
        return factor(written)
    except ExpectedError as error:
        raise MisfitError(path, f"is {seen(written)}; expected {error}") from None
