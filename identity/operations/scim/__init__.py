"""SCIM 2.0: provisioning of users and groups by other systems."""
