"""CloudFormation of the local AWS: creates each resource of a template through the API of its service.

moto's CloudFormation knows few of the types that a stack here has, ignores many of their properties, and skips unknown
types silently. Here an unknown type or property fails the deployment, and all that a template sets can be read back
from the service.
"""
