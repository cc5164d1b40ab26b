"""Changes that the rules of `infra/template/account.py` must find."""

from infra.template import account
from tests.stack.broken_template import GONE, Broken, at

ACCOUNT = [
    Broken(account.roles_keep_to_the_boundary, "JobRole", {at("JobRole", "PermissionsBoundary"): GONE}),
    Broken(account.roles_keep_to_the_boundary, "SchedulesRole", {at("SchedulesRole", "Path"): "/"}),
    *(
        Broken(account.names_begin_with_the_stacks, name, {at(name, key): value})
        for name, key, value in (
            ("WakeQueue", "QueueName", "wake.fifo"),
            ("JobLogGroup", "LogGroupName", {"Fn::Sub": "/aws/${AWS::StackName}/job"}),
            ("JobApplication", "Name", "blizzard"),
            ("SweepScheduled", "Name", {"Ref": "LakeBucketName"}),
        )
    ),
    Broken(account.roles_have_generated_names, "JobRole", {at("JobRole", "RoleName"): {"Ref": "AWS::StackName"}}),
    Broken(
        account.arns_name_the_partition,
        "JobRole",
        {at("JobRole", "Policies/0/PolicyDocument/Statement/5/Resource"): "arn:aws:s3:::lake/*"},
    ),
    Broken(
        account.arns_name_the_partition,
        "EventsQueueUrl",
        {"Outputs/EventsQueueUrl/Value": {"Fn::Sub": "arn:aws-cn:sqs:${AWS::Region}:1:x"}},
    ),
]
