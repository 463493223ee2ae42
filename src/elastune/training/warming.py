"""Paying for torch once per node: workers forked from a process that called `warm_up` start at once."""

from __future__ import annotations


def warm_up() -> None:
    """Import torch and all that its first training would import, without starting a thread.

    A forked process has only the thread that forked it: a pool of threads, or autograd's engine, started
    before the fork would hang or be refused after it. So there is no backward pass here and nothing large.
    """
    import torch  # noqa: PLC0415  slow
    import torch.utils.data  # noqa: PLC0415

    import elastune.training.torch_group  # noqa: F401, PLC0415  process groups and DDP

    model = torch.nn.Linear(1, 1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in (torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())):
        optimizer.step()  # the first one imports torch's compiler, half as long as torch itself
        optimizer.zero_grad()
    with torch.no_grad():
        torch.nn.functional.cross_entropy(model(torch.zeros(1, 1)), torch.zeros(1, dtype=torch.int64))
