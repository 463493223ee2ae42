"""Prints the lease of an instance as EC2 has it now."""

import sys

import boto3

instance, tag, region = sys.argv[1:]
wanted = {"resource-id": instance, "key": tag}
found = boto3.client("ec2", region_name=region).describe_tags(
    Filters=[{"Name": name, "Values": [value]} for name, value in wanted.items()]
)
sys.stdout.write(found["Tags"][0]["Value"])
