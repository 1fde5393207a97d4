"""What a network is made of, whoever built it.

Its graph, its operations, its products of matrices.
"""
