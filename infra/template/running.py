"""Rules about functions, their surroundings, the job, and the template's parameters."""

import re

from infra.template.delivery import FUNCTION
from infra.template.findings import Found
from infra.template.stack import Stack, references

LOG_GROUP = "AWS::Logs::LogGroup"
INTERFACE = "AWS::CloudFormation::Interface"
RUNTIME, ARCHITECTURE = "python3.13", "arm64"


def functions_run_on_what_they_are_packed_for(stack: Stack) -> Found:
    for name, function in stack.of_type(FUNCTION).items():
        found = (function.get("Runtime"), *function.get("Architectures", ["x86_64"]))
        if found != (RUNTIME, ARCHITECTURE):
            yield name, f"expected {RUNTIME} on {ARCHITECTURE}, found {' on '.join(map(str, found))}"
        handler = f"functions.{short_name(name)}.handler.handler"
        if function.get("Handler") != handler:
            yield name, f"expected the handler {handler}, found {function.get('Handler')}"


def logs_end(stack: Stack) -> Found:
    groups = stack.of_type(LOG_GROUP)
    for name, function in stack.of_type(FUNCTION).items():
        if not references(function.get("LoggingConfig", {}).get("LogGroup")) & groups.keys():
            yield name, "Lambda would make a log group that keeps everything; set LoggingConfig to one of this template"
    for name, group in groups.items():
        if "RetentionInDays" not in group:
            yield name, "it keeps everything; set RetentionInDays"


def functions_get_what_they_read(stack: Stack) -> Found:
    """Every variable that the code reads is set, and every one that is set is read."""
    given = {short_name(name): _variables(function) for name, function in stack.of_type(FUNCTION).items()}
    everywhere = {variable for variables in given.values() for variable in variables}
    for name, function in stack.of_type(FUNCTION).items():
        own, is_set = stack.code.variables[short_name(name)], _variables(function)
        for variable in sorted(own - is_set):
            yield name, f"its code reads {variable}, which is not set; set it in Environment"
        for variable in sorted(is_set - own - stack.code.shared - stack.code.framework):
            yield name, f"nothing reads {variable}; take it out of Environment"
    for variable in sorted(stack.code.shared - everywhere):
        yield "Globals", f"functions read {variable}, which no function has; set it in Environment"


def the_job_is_bounded(stack: Stack) -> Found:
    for name, application in stack.of_type("AWS::EMRServerless::Application").items():
        if application.get("Type") not in ("Spark", "SPARK"):
            yield name, f"expected the Type Spark, found {application.get('Type')}"
        if not {"Cpu", "Memory"} <= application.get("MaximumCapacity", {}).keys():
            yield name, "nothing bounds what a runaway costs; set MaximumCapacity with Cpu and Memory"
        if application.get("AutoStopConfiguration", {}).get("Enabled") is not True:
            yield name, "it would never stop; set AutoStopConfiguration"
        if "MaxConcurrentRuns" not in application.get("SchedulerConfiguration", {}):
            yield name, "15 drivers could run at a time; set SchedulerConfiguration with MaxConcurrentRuns"
        if application.get("InitialCapacity"):
            yield name, "workers that wait cost money around the clock; leave InitialCapacity out"
        if application.get("RuntimeConfiguration"):
            yield name, "releases disagree whether it is replaced or merged; all settings belong into StartJobRun"


def parameters_are_explained(stack: Stack) -> Found:
    interface = stack.template.get("Metadata", {}).get(INTERFACE, {})
    grouped = [name for group in interface.get("ParameterGroups", ()) for name in group["Parameters"]]
    labelled = interface.get("ParameterLabels", {})
    for name, parameter in stack.template.get("Parameters", {}).items():
        if not parameter.get("Description"):
            yield name, "it has no Description"
        if grouped.count(name) != 1 or name not in labelled:
            yield name, f"the console shows it without group or label; put it once into each of {INTERFACE}"
        if "AllowedPattern" in parameter and not parameter.get("ConstraintDescription"):
            yield name, "who mistypes it is shown a regular expression; set ConstraintDescription"
    for name in sorted({*grouped, *labelled} - stack.template.get("Parameters", {}).keys()):
        yield name, f"{INTERFACE} names it, and it is no parameter"


def parameters_are_checked(stack: Stack) -> Found:
    """Wrong values are refused before anything is made."""
    for name, parameter in stack.template.get("Parameters", {}).items():
        if "AllowedValues" in parameter:
            continue
        needed = {"MinValue", "MaxValue"} if parameter["Type"] == "Number" else {"AllowedPattern"}
        if not needed <= parameter.keys():
            yield name, f"any value is taken; set {' and '.join(sorted(needed))} or AllowedValues"


def parameters_bring_no_wildcards(stack: Stack) -> Found:
    """What becomes part of an ARN in a role must not widen it."""
    named = references(stack.of_type("AWS::IAM::Role"))
    for name, parameter in stack.template.get("Parameters", {}).items():
        classes = "".join(re.findall(r"\[([^\]]*)\]", parameter.get("AllowedPattern", "")))
        if name in named and set(classes) & set("*?"):
            yield name, "its pattern admits * or ?, which are wildcards in a policy; leave them out"


def parameters_are_used(stack: Stack) -> Found:
    parts = [stack.whole.get(section, {}) for section in ("Resources", "Outputs", "Conditions")]
    for name in sorted(stack.whole.get("Parameters", {}).keys() - references(parts)):
        yield name, "nothing uses it; take it out"


def short_name(logical_id: str) -> str:
    """`collector` for CollectorFunction: its folder, its service in logs and metrics."""
    return logical_id.removesuffix("Function").lower()


def _variables(function: dict[str, object]) -> set[str]:
    environment = function.get("Environment", {})
    return set(environment["Variables"]) if isinstance(environment, dict) and environment else set()


RULES = (
    functions_run_on_what_they_are_packed_for,
    logs_end,
    functions_get_what_they_read,
    the_job_is_bounded,
    parameters_are_explained,
    parameters_are_checked,
    parameters_bring_no_wildcards,
    parameters_are_used,
)
