"""The typed configuration: config/identity.yaml and environment variables, validated by schemas/config.json."""

from identity.config.loading import ConfigError, file_of, load, warnings
from identity.config.sections import Config
from identity.config.source import ENVIRONMENT_PREFIX, FILE_NAME
from identity.config.validation import EMBEDDED, schema, settings

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
