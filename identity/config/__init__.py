"""The typed configuration: config/identity.yaml and environment variables, validated by schemas/config.json."""

from identity.config.checks import warnings
from identity.config.description import schema, settings
from identity.config.loading import ConfigError, file_of, load
from identity.config.sections import Config
from identity.config.source import ENVIRONMENT_PREFIX, FILE_NAME
from identity.config.validation import EMBEDDED

__all__ = [
    "EMBEDDED",
    "ENVIRONMENT_PREFIX",
    "FILE_NAME",
    "Config",
    "ConfigError",
    "file_of",
    "load",
    "schema",
    "settings",
    "warnings",
]
