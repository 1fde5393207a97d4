"""What a network is made of, whoever built it: its graph, operations and products of matrices."""
