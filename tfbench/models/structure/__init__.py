"""What a network is made of, whoever built it: its graph, its operations, its products of matrices."""
