"""Prints a secret to a file that only root can read. Errors of botocore have names, never values."""

import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

secret, region = sys.argv[1:]
try:
    found = boto3.client("secretsmanager", region_name=region).get_secret_value(SecretId=secret)
except (BotoCoreError, ClientError) as error:
    sys.exit(f"the secret {secret} cannot be read: {error}")
token = found.get("SecretString", "").strip()
if not token:
    sys.exit(f"the secret {secret} is empty, expected the token of the Ray cluster as its text")
sys.stdout.write(token)
