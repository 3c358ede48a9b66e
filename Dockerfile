# The service in a container: docs/deploy/containers.md. Built for amd64 and arm64 with the same lines.
# BASE is an image with Python 3.11 or newer, or one of Debian or Ubuntu, which gets Debian's Python.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN command -v python3 >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv; }
WORKDIR /src
COPY pyproject.toml setup.py MANIFEST.in README.md CHANGELOG.md LICENSE run.py constraints.txt ./
COPY .ci/locked-packages .ci/locked-packages
COPY config config
COPY schemas schemas
COPY identity identity
COPY deploy deploy
COPY docs/deploy docs/deploy
# Not editable: the source stays behind in this stage, and so does pip. No embedded stores: a container gets its own MongoDB
# and Redis. The versions and hashes are those of constraints.txt.
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/identity \
    && sh .ci/locked-packages build > /tmp/build.txt && sh .ci/locked-packages image > /tmp/image.txt \
    && export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    && /opt/build/bin/pip install --require-hashes --requirement /tmp/build.txt \
    && /opt/build/bin/pip --python /opt/identity install --require-hashes --requirement /tmp/image.txt \
    && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels . \
    && /opt/build/bin/pip --python /opt/identity install --no-deps --no-index /tmp/wheels/*.whl \
    && mkdir -p /etc/identity && cp config/identity.yaml config/kickstart.yaml /etc/identity/

FROM ${BASE}
RUN command -v python3 >/dev/null \
    || { apt-get update && apt-get install --yes --no-install-recommends python3 ca-certificates && rm -rf /var/lib/apt/lists/*; }
# The service installs nothing: an intruder should not be able to either.
RUN python3 -m pip uninstall --yes pip setuptools wheel 2>/dev/null; \
    rm -rf "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/ensurepip" && ! python3 -m pip --version 2>/dev/null
RUN groupadd --gid 10001 identity \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/identity --shell /usr/sbin/nologin identity \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/identity
COPY --from=build /opt/identity /opt/identity
COPY --from=build /etc/identity /etc/identity
# deploy/image.sh gives the commit and its time.
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="identity-server" \
      org.opencontainers.image.description="OAuth 2.0 and OpenID Connect provider with users, tenants, API keys and durable webhooks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
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
