# The service in a container: docs/deploy/containers.md. Built for amd64 and arm64 with the same lines.
# BASE is an image with Python 3.11 or newer, or one of Debian or Ubuntu, which gets Debian's Python.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN command -v python3 >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv; }
WORKDIR /src
COPY pyproject.toml setup.py MANIFEST.in README.md CHANGELOG.md LICENSE run.py ./
COPY config config
COPY schemas schemas
COPY identity identity
COPY deploy deploy
COPY docs/deploy docs/deploy
# Not editable: the source stays behind in this stage. No embedded stores: a container gets its own MongoDB and Redis.
RUN python3 -m venv /opt/identity \
    && /opt/identity/bin/pip install --no-cache-dir --disable-pip-version-check '.[tracing]' \
    && mkdir -p /etc/identity && cp config/identity.yaml config/kickstart.yaml /etc/identity/

FROM ${BASE}
RUN command -v python3 >/dev/null \
    || { apt-get update && apt-get install --yes --no-install-recommends python3 ca-certificates && rm -rf /var/lib/apt/lists/*; }
RUN groupadd --gid 10001 identity \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/identity --shell /usr/sbin/nologin identity \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/identity
COPY --from=build /opt/identity /opt/identity
COPY --from=build /etc/identity /etc/identity
ENV PATH=/opt/identity/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    IDENTITY__DATA_DIR=/var/lib/identity \
    IDENTITY__LOGGING__FORMAT=json \
    IDENTITY__SERVER__ADDRESS=0.0.0.0
# The root file system may be read-only; this folder and /tmp are written to.
VOLUME /var/lib/identity
USER 10001:10001
WORKDIR /var/lib/identity
EXPOSE 9011
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ.get('IDENTITY__SERVER__PORT', '9011') + '/api/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["identity", "--config", "/etc/identity"]
CMD ["run"]
