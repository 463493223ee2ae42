"""Plans and their price: the problem, the planners, the quote."""
