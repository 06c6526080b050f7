"""A gallery behind HTTP: `arcset serve people.db`.

app.py        make_app: the routes, and what stands around them
server.py     one process that listens, and stops without losing anything
service.py    what all routes share: gallery, model, limits, threads
batching.py   images of many requests through the network together
keys.py       who may ask, and who may change something
access.py     which route takes which role
"""
