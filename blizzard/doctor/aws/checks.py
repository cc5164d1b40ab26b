"""The checks of a stack, in their order."""

from collections.abc import Iterator, Sequence

from blizzard.doctor.aws import alarms, catalog, events, lake, probe, release, running
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, Result, Verdict, ok, problem, skipped
from blizzard.doctor.examine import OnCheck, examine

UNFINISHED = "_IN_PROGRESS"


def _stack(stack: Stack) -> Finding:
    status = str(stack.described["StackStatus"])
    if "DispatcherFunctionName" not in stack.outputs:
        return problem(
            f"a stack without the output DispatcherFunctionName, in the state {status}",
            expected="a stack that `sam deploy` has made from template.yaml",
            advice="deploy it (docs/deploy.md), or name another stack",
        )
    if status.endswith("_FAILED"):
        return problem(
            f"it is {status}",
            expected="a deployment that has ended well",
            advice=f"aws cloudformation describe-stack-events --stack-name {stack.name} says why; deploy it again",
        )
    return ok(f"it is being deployed ({status})" if status.endswith(UNFINISHED) else status)


OF_THE_STACK: Sequence[Check[Stack]] = (
    Check("aws.stack", _stack),
    *release.CHECKS,
    *events.CHECKS,
    *running.CHECKS,
    *alarms.CHECKS,
    *lake.CHECKS,
    *catalog.CHECKS,
    *probe.CHECKS,
)
IDS = (*(check.id for check in OF_THE_STACK), *(check.id for check in events.LANDING_CHECKS))


def examine_stack(stack: Stack, on_check: OnCheck) -> Iterator[Result]:
    """The landing buckets are known only if the stack is."""
    results = [*examine(stack.name, stack, OF_THE_STACK, on_check)]
    yield from results
    if results[0].verdict in (Verdict.PROBLEM, Verdict.SKIPPED):
        for check in events.LANDING_CHECKS:
            yield Result(check.id, stack.name, skipped("aws.stack has no good answer"))
        return
    for landing in stack.landings():
        place = events.LandingOfStack(stack, landing)
        yield from examine(f"s3://{landing.bucket}", place, events.LANDING_CHECKS, on_check)


def without_a_stack() -> Iterator[Result]:
    yield from (Result(each, "no stack", skipped("no stack was named; --stack NAME looks at one")) for each in IDS)
