"""The body of real runs: gangs of warm processes on the nodes of a Ray cluster.

    driver (body, fleet, posts) --Ray--> agent, one per node --sockets--> slot processes, one per slot

Ray places the agents and carries the messages. On the driver's own node there is no agent: its slot processes
hang on the driver. The slot processes are forked from a zygote that has imported the heavy libraries; they
outlive trials and die with their node.
"""
