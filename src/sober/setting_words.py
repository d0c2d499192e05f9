"""A run's setting in words for people: `β-TCVAE, β = 4`. In tables it is `beta_tcvae beta=4`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sober.installation import EXTRA_OF
from sober.types import Run, Setting

if TYPE_CHECKING:
    from sober.methods import Hyper, Method

NOT_SETTINGS = ("world", "method", "seed")  # fields of a run that its setting does not name


def _methods() -> Mapping[str, Method]:
    """The registry of methods. Empty where JAX is not installed: methods and settings then keep their own names."""
    try:
        from sober.methods import METHODS  # noqa: PLC0415 -- needs JAX; people read tables without it
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_OF:
            raise
        return {}
    return METHODS


def _hypers(method: str) -> tuple[Hyper, ...]:
    """The hyperparameters that a method declares."""
    methods = _methods()
    return tuple(methods[method].hyper) if method in methods else ()


def method_title(name: str) -> str:
    """A method's name for people; its own name if the registry lacks the method."""
    methods = _methods()
    return (methods[name].title or name) if name in methods else name


def setting_title(method: str, name: str) -> str:
    """The name for people of a hyperparameter of a method, or of an option of training."""
    titles = {hyper.name: hyper.title for hyper in _hypers(method)}
    return titles.get(name) or name.replace("_", " ")


def words_for_people(runs: Sequence[Run]) -> Callable[[Run], str]:
    """Says a run's setting in words for people: its method, and how it differs from the method's other runs.

    It names an option of training only if the method's runs on one world differ in it: whoever reads the name of the
    world needs no nets or steps that go with the world. Apart from the method's first hyperparameter, a value that more
    than half of the method's settings have is not named. If all runs have one setting, the first hyperparameter is.
    """
    first_runs: dict[str, dict[str, Run]] = {}  # by method, of each setting on each world
    for run in runs:
        first_runs.setdefault(run.method, {}).setdefault(run.seedless, run)
    usual = {method: _usual(list(first_runs[method].values())) for method in first_runs}
    named = {method: _named(list(first_runs[method].values())) for method in first_runs}
    settings_of_all = {
        (method, *all_settings(run).items()) for method in first_runs for run in first_runs[method].values()
    }
    if len(settings_of_all) == 1:
        named, usual = {method: _main_hyper(method) for method in named}, {}

    def words(run: Run) -> str:
        usual_of_method = usual.get(run.method, {})
        settings = {
            name: value
            for name, value in all_settings(run).items()
            if name in named[run.method] and (name not in usual_of_method or value != usual_of_method[name])
        }
        return in_words(run.method, settings)

    return words


def in_words(method: str, settings: Mapping[str, Setting]) -> str:
    """A method and some of its settings: `β-TCVAE, β = 4`."""
    texts = [f"{setting_title(method, name)} = {_value(value)}" for name, value in settings.items()]
    return ", ".join([method_title(method), *texts])


def all_settings(run: Run) -> dict[str, Setting]:
    """All settings of a run: the method's hyperparameters in its own order, then the options of training."""
    order = [hyper.name for hyper in _hypers(run.method)]
    methods = _methods()
    complete = methods[run.method].complete(run.hyper) if run.method in methods else run.hyper
    hyper = dict(sorted(complete.items(), key=lambda pair: _place(order, pair[0])))
    return {**hyper, **{name: value for name, value in run.flat().items() if name not in NOT_SETTINGS}}


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _named(runs: Sequence[Run]) -> set[str]:
    """The hyperparameters in which runs of one method differ, and the options of training that differ on some world."""
    settings_by_world: dict[str, list[dict[str, Setting]]] = {}
    for run in runs:
        settings_by_world.setdefault(run.world, []).append(all_settings(run))
    within_worlds = {name for settings in settings_by_world.values() for name in _varying(settings)}
    training = {name for run in runs for name in run.flat()}
    return within_worlds | (_varying([all_settings(run) for run in runs]) - training)


def _varying(settings: Sequence[Mapping[str, Setting]]) -> set[str]:
    names = {name for run_settings in settings for name in run_settings}
    return {name for name in names if len({run_settings.get(name) for run_settings in settings}) > 1}


def _usual(runs: Sequence[Run]) -> dict[str, Setting | None]:
    """The values that more than half of a method's settings have, without those of its first hyperparameter."""
    settings = [all_settings(run) for run in runs]
    usual = {}
    for name in {name for run_settings in settings for name in run_settings} - _main_hyper(runs[0].method):
        [(value, count)] = Counter(run_settings.get(name) for run_settings in settings).most_common(1)
        if 2 * count > len(settings):
            usual[name] = value
    return usual


def _main_hyper(method: str) -> set[str]:
    """The first hyperparameter of a method, unless nearly every method has it."""
    return {hyper.name for hyper in _hypers(method)[:1] if not hyper.later}


def _value(value: Setting | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
