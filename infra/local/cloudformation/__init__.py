"""CloudFormation of the local AWS: creates each resource of a template through the API of its service.

moto's CloudFormation supports few of the resource types that the template uses, ignores many of their properties, and
skips unsupported types silently. Here an unsupported type or property fails the deployment, and everything that a
template sets can be read back from the service.
"""
