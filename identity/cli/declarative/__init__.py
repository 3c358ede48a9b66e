"""Configuration as files: export, plan and apply.

The resource table and schemas/ decide what is exported, which members are read-only or secret, and what is valid.
"""
