"""CloudFormation of the local AWS: every resource of a template is made through the service's own API.

moto's CloudFormation knows few of the types that a stack here has, ignores many of their properties and skips in
silence what it does not know. Here a type or a property that is not implemented fails the deployment, and what a
template sets can be read back from the service.
"""
