"""A gallery behind HTTP: `arcset serve people.db`.

app.py        make_app: what a request passes on its way to a route
auth.py       who may do what: keys, roles, pages of other sites
limits.py     the middleware that asks auth.py, and bounds bodies, requests and waiting
routes.py     recognition, state, the page; subjects.py: who is enrolled; models.py: their JSON
service.py    what the routes share: gallery, model, threads; batching.py, decoding.py: images
server.py     one process that listens, and stops without losing anything
"""
