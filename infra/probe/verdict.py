"""What is wrong in an account, by what a probe has found, and what to do about each."""

from blizzard.doctor.aws.probe_line import Problem, line_problems
from infra.probe.log_lines import Found
from infra.probe.run import ProbeRun


def problems_of(run: ProbeRun, log: Found, *, log_group: str, application_id: str, log_secs: float) -> list[Problem]:
    """Empty: all is well."""
    if not run.has_ended:
        return [_not_ended(run, application_id)]
    if log.line is None:
        return [_no_line(run, log, log_group, application_id, log_secs)]
    found = [] if run.state == "SUCCESS" else [_failed(run, "The line below was printed before that.")]
    return [*found, *line_problems(log.line)]


def _not_ended(run: ProbeRun, application_id: str) -> Problem:
    waits = run.state in ("QUEUED", "PENDING", "SUBMITTED")
    advice = (
        "Another run may hold the application (MaxConcurrentRuns), or its vCPUs are used up (MaximumVcpus, the "
        "account's quota): look at the application's runs, and probe again."
        if waits
        else "Look at the run in EMR Studio."
    )
    cancel = f"aws emr-serverless cancel-job-run --application-id {application_id} --job-run-id {run.id}"
    return Problem("run", f"still {run.state} after {run.secs:.0f} s", f"{advice} To end this one: {cancel}")


def _failed(run: ProbeRun, said: str) -> Problem:
    details = run.details.strip().rstrip(".")
    return Problem("run", f"{run.state}: {details}. {said}", "Correct what it names, and probe again.")


def _no_line(run: ProbeRun, log: Found, group: str, application_id: str, secs: float) -> Problem:
    if run.state != "SUCCESS":
        last = f"The log's last lines: {' / '.join(log.last_lines)}" if log.last_lines else "No log line has arrived."
        return _failed(run, last)
    arrived = "other lines of the run, but not the probe's" if log.last_lines else "no line of it"
    dashboard = f"aws emr-serverless get-dashboard-for-job-run --application-id {application_id} --job-run-id {run.id}"
    return Problem(
        "log",
        f"the run succeeded, but within {secs:.0f} s {arrived} arrived in {group}",
        f"Alarms and metrics of the job would see nothing either. EMR keeps its own copy of the output: `{dashboard}` "
        "prints its address (Logs, Driver, stdout). Then look whether the log group exists, and whether JobRole still "
        "has its statements Log and FindLogGroup.",
    )
