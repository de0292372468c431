"""The command line of a run as it is kept with the result, so that it can be given again."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

# Options that change neither the numbers nor what they mean: where results go, what is printed, who computes.
_ASIDE = frozenset(
    {
        "out",
        "folder",
        "trace",
        "force",
        "as_json",
        "quiet",
        "skip_existing",
        "jobs",
        "threads",
        "schedule",
        "checkpoint",
    }
    | {"checkpoint_every", "resume", "engine", "ranks"}
)


def command_line() -> str:
    """The command in progress with the options that were given and that decide its result."""
    context = click.get_current_context()
    words = ["fdglm", str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _ASIDE or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            words.append(str(value))
            continue
        option = max(parameter.opts, key=len)
        if isinstance(parameter, click.Option) and parameter.is_flag:
            words.append(option)
        else:
            for each in value if isinstance(value, tuple) else [value]:
                words += [option, str(each)]
    return shlex.join(words)
