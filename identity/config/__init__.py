"""The typed configuration: config/identity.yaml and the environment, checked against schemas/config.json."""

from identity.config.checks import warnings
from identity.config.description import schema, settings
from identity.config.loading import ConfigError, file_of, load
from identity.config.sections import (
    ApiKeys,
    Audit,
    Breaches,
    ClientKeys,
    Config,
    Email,
    GeoIp,
    IdentityProviders,
    Kickstart,
    Lambdas,
    License,
    Logging,
    Metrics,
    MongoDB,
    Outbound,
    Passwords,
    Redis,
    Secrets,
    Server,
    Tracing,
    Webhooks,
)
from identity.config.source import ENVIRONMENT_PREFIX, FILE_NAME
from identity.config.validation import EMBEDDED

__all__ = [
    "EMBEDDED",
    "ENVIRONMENT_PREFIX",
    "FILE_NAME",
    "ApiKeys",
    "Audit",
    "Breaches",
    "ClientKeys",
    "Config",
    "ConfigError",
    "Email",
    "GeoIp",
    "IdentityProviders",
    "Kickstart",
    "Lambdas",
    "License",
    "Logging",
    "Metrics",
    "MongoDB",
    "Outbound",
    "Passwords",
    "Redis",
    "Secrets",
    "Server",
    "Tracing",
    "Webhooks",
    "file_of",
    "load",
    "schema",
    "settings",
    "warnings",
]
