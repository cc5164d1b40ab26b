"""Rules about functions, their logs and variables, the job, and the template's parameters."""

import re

from infra.template.evaluated import EvaluatedTemplate
from infra.template.findings import RuleFindings
from infra.template.queues import FUNCTION
from infra.template.references import references

LOG_GROUP = "AWS::Logs::LogGroup"
INTERFACE = "AWS::CloudFormation::Interface"
RUNTIME, ARCHITECTURE = "python3.13", "arm64"


def functions_run_on_the_platform_of_their_bundles(stack: EvaluatedTemplate) -> RuleFindings:
    for name, function in stack.of_type(FUNCTION).items():
        found = (function.get("Runtime"), *function.get("Architectures", ["x86_64"]))
        if found != (RUNTIME, ARCHITECTURE):
            yield name, f"expected {RUNTIME} on {ARCHITECTURE}, found {' on '.join(map(str, found))}"
        handler = f"functions.{short_name(name)}.handler.handler"
        if function.get("Handler") != handler:
            yield name, f"expected the handler {handler}, found {function.get('Handler')}"


def logs_expire(stack: EvaluatedTemplate) -> RuleFindings:
    groups = stack.of_type(LOG_GROUP)
    for name, function in stack.of_type(FUNCTION).items():
        if not references(function.get("LoggingConfig", {}).get("LogGroup")) & groups.keys():
            yield name, "Lambda would create a log group without expiry; set LoggingConfig to one of this template"
    for name, group in groups.items():
        if "RetentionInDays" not in group:
            yield name, "its logs never expire; set RetentionInDays"


def functions_get_the_variables_that_they_read(stack: EvaluatedTemplate) -> RuleFindings:
    """The variables that are set are exactly those that the code reads."""
    given = {short_name(name): _variables(function) for name, function in stack.of_type(FUNCTION).items()}
    everywhere = {variable for variables in given.values() for variable in variables}
    for name, function in stack.of_type(FUNCTION).items():
        own, is_set = stack.code.variables[short_name(name)], _variables(function)
        for variable in sorted(own - is_set):
            yield name, f"its code reads {variable}, which is not set; set it in Environment"
        for variable in sorted(is_set - own - stack.code.shared - stack.code.framework):
            yield name, f"nothing reads {variable}; remove it from Environment"
    for variable in sorted(stack.code.shared - everywhere):
        yield "Globals", f"functions read {variable}, which no function has; set it in Environment"


def the_job_is_bounded(stack: EvaluatedTemplate) -> RuleFindings:
    for name, application in stack.of_type("AWS::EMRServerless::Application").items():
        if application.get("Type") not in ("Spark", "SPARK"):
            yield name, f"expected the Type Spark, found {application.get('Type')}"
        if not {"Cpu", "Memory"} <= application.get("MaximumCapacity", {}).keys():
            yield name, "nothing limits the cost of a runaway job; set MaximumCapacity with Cpu and Memory"
        if application.get("AutoStopConfiguration", {}).get("Enabled") is not True:
            yield name, "it would never stop; set AutoStopConfiguration"
        if "MaxConcurrentRuns" not in application.get("SchedulerConfiguration", {}):
            yield name, "15 drivers could run at once; set SchedulerConfiguration with MaxConcurrentRuns"
        if application.get("InitialCapacity"):
            yield name, "pre-initialized workers cost money around the clock; remove InitialCapacity"
        if application.get("RuntimeConfiguration"):
            yield (
                name,
                "releases replace it or merge it with a run's settings; put all settings into StartJobRun",
            )


def parameters_are_explained(stack: EvaluatedTemplate) -> RuleFindings:
    interface = stack.template.get("Metadata", {}).get(INTERFACE, {})
    grouped = [name for group in interface.get("ParameterGroups", ()) for name in group["Parameters"]]
    labelled = interface.get("ParameterLabels", {})
    for name, parameter in stack.template.get("Parameters", {}).items():
        if not parameter.get("Description"):
            yield name, "it has no Description"
        if grouped.count(name) != 1 or name not in labelled:
            yield name, f"the console shows it without group or label; add it once to each of {INTERFACE}"
        if "AllowedPattern" in parameter and not parameter.get("ConstraintDescription"):
            yield name, "after a typo the user sees only a regular expression; set ConstraintDescription"
    for name in sorted({*grouped, *labelled} - stack.template.get("Parameters", {}).keys()):
        yield name, f"{INTERFACE} names it, but it is no parameter"


def parameters_are_checked(stack: EvaluatedTemplate) -> RuleFindings:
    """Each parameter has constraints, so that wrong values are refused before anything is created."""
    for name, parameter in stack.template.get("Parameters", {}).items():
        if "AllowedValues" in parameter:
            continue
        needed = {"MinValue", "MaxValue"} if parameter["Type"] == "Number" else {"AllowedPattern"}
        if not needed <= parameter.keys():
            yield name, f"any value is accepted; set {' and '.join(sorted(needed))} or AllowedValues"


def parameters_bring_no_wildcards(stack: EvaluatedTemplate) -> RuleFindings:
    """A parameter in an ARN of a role must not widen it."""
    named = references(stack.of_type("AWS::IAM::Role"))
    for name, parameter in stack.template.get("Parameters", {}).items():
        classes = "".join(re.findall(r"\[([^\]]*)\]", parameter.get("AllowedPattern", "")))
        if name in named and set(classes) & set("*?"):
            yield name, "its pattern allows * or ?, which are wildcards in a policy; remove them"


def parameters_are_used(stack: EvaluatedTemplate) -> RuleFindings:
    parts = [stack.with_conditions.get(section, {}) for section in ("Resources", "Outputs", "Conditions")]
    for name in sorted(stack.with_conditions.get("Parameters", {}).keys() - references(parts)):
        yield name, "nothing uses it; remove it"


def short_name(logical_id: str) -> str:
    """`collector` for CollectorFunction: its folder, and its service name in logs and metrics."""
    return logical_id.removesuffix("Function").lower()


def _variables(function: dict[str, object]) -> set[str]:
    environment = function.get("Environment", {})
    return set(environment["Variables"]) if isinstance(environment, dict) and environment else set()


RULES = (
    functions_run_on_the_platform_of_their_bundles,
    logs_expire,
    functions_get_the_variables_that_they_read,
    the_job_is_bounded,
    parameters_are_explained,
    parameters_are_checked,
    parameters_bring_no_wildcards,
    parameters_are_used,
)
