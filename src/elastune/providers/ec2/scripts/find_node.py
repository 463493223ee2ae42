"""Prints the id under which the head lists the living node of this label, once it does."""

import sys
import time

from ray._raylet import GcsClient

head, label, instance = sys.argv[1:]
client = GcsClient(address=head)
for _ in range(60):
    for node, info in client.get_all_node_info(timeout=10).items():
        if info.state == 0 and info.labels.get(label) == instance:
            sys.stdout.write(node.hex())
            sys.exit()
    time.sleep(0.5)
sys.exit(f"the head {head} does not list this node")
