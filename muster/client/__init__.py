"""Code that clients for threads and for event loops share: procedures are generators, which two runners drive."""
