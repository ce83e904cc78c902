"""Random histories put to an Apache Kafka and a musterd in step, and what the two answer otherwise.

A history is a list of steps, drawn from a seed (`generator`) and made of what clients may ask (`steps`). A player
(`player`) puts it to both servers at once, each with ids of its own (`members`), and compares the answers modulo those
ids (`answers`). Differences on purpose are predicates with reasons (`allowed`); any other is shrunk (`shrinking`).
"""
