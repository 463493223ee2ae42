"""The body of real runs: gangs of warm processes on the nodes of a Ray cluster.

    driver (body, fleet) --Ray--> agent, one per node --sockets--> slot processes, one per slot

Ray places the agents and carries the messages. The slot processes are forked from a zygote that has
imported the heavy libraries; they outlive trials and die with their node.
"""
