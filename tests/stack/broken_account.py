"""Changes that the rules in `infra/template` about accounts and keys must find."""

from infra.template import account, encryption
from tests.stack.broken_template import GONE, Broken, at

PRODUCERS = at("LandingBucketPolicy", "PolicyDocument/Statement/1/Fn::If/1")
BY_DEFAULT = at("LakeBucket", "BucketEncryption/ServerSideEncryptionConfiguration/0")
VIA_S3, VIA_SQS = ({"Fn::Sub": f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}"} for service in ("s3", "sqs"))


def of_key(role: str, number: int, path: str) -> str:
    """Of the statement that lets a role use the stack's key."""
    return at(role, f"Policies/0/PolicyDocument/Statement/{number}/Fn::If/1/{path}")


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
    *(
        Broken(account.outsiders_may_only_write, "LandingBucketPolicy", {f"{PRODUCERS}/{path}": value})
        for path, value in (
            ("Action/3", "s3:GetObject"),
            ("Principal", "*"),
            ("Resource", {"Fn::Sub": "arn:${AWS::Partition}:s3:::${LandingBucketName}/*"}),
        )
    ),
    Broken(encryption.everything_takes_the_key, "WakeQueue", {at("WakeQueue", "KmsMasterKeyId"): GONE}),
    Broken(encryption.everything_takes_the_key, "JobLogGroup", {at("JobLogGroup", "KmsKeyId"): GONE}),
    Broken(
        encryption.everything_takes_the_key,
        "LakeBucket",
        {f"{BY_DEFAULT}/ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}},
    ),
    Broken(encryption.buckets_have_bucket_keys, "LakeBucket", {f"{BY_DEFAULT}/BucketKeyEnabled": GONE}),
    Broken(
        encryption.roles_may_use_the_key_of_what_they_touch, "CollectorRole", {of_key("CollectorRole", 7, "Action"): []}
    ),
    Broken(
        encryption.roles_may_use_the_key_of_what_they_touch,
        "CollectorRole",
        {of_key("CollectorRole", 7, "Condition/StringEquals/kms:ViaService/1"): "sns.eu-west-1.amazonaws.com"},
    ),
    Broken(
        encryption.roles_may_use_the_key_of_what_they_touch,
        "JobRole",
        {of_key("JobRole", 9, "Resource"): {"Ref": "LakeKmsKeyArn"}},
    ),
    Broken(
        encryption.roles_may_use_the_key_of_what_they_touch,
        "SchedulesRole",
        {of_key("SchedulesRole", 2, "Condition/StringEquals/kms:ViaService"): [VIA_S3, VIA_SQS]},
    ),
]
