#!/bin/sh
# Build the image of the Dockerfile and try it: `make image`. Uses buildah, or else a Docker engine.
#   BASE=IMAGE       another base image
#   IMAGE=NAME:TAG   another name than identity-server:VERSION
#   BUILD_FLAGS=...  further options of the build, such as --platform linux/arm64
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' identity/__init__.py)
image=${IMAGE:-identity-server:$version}
arguments="--build-arg VERSION=$version ${BASE:+--build-arg BASE=$BASE}"
if commit=$(git rev-parse HEAD 2>/dev/null); then
    created=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
    arguments="$arguments --build-arg REVISION=$commit --build-arg CREATED=$created"
fi

if command -v buildah >/dev/null; then
    # As root in a container of its own, neither user namespaces nor overlayfs are needed.
    [ "$(id -u)" != 0 ] || export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
    buildah build --format docker $arguments ${BUILD_FLAGS:-} --tag "$image" .
    container=$(buildah from "$image")
    trap 'buildah rm "$container" >/dev/null' EXIT
    inside() { buildah run --user 10001:10001 "$container" -- "$@"; }
elif docker info >/dev/null 2>&1; then
    docker build $arguments ${BUILD_FLAGS:-} --tag "$image" .
    inside() { docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --entrypoint "" "$image" "$@"; }
else
    echo "make image needs buildah (apt-get install buildah) or a running Docker engine" >&2
    exit 1
fi

try() { inside identity --config /etc/identity "$@"; }
[ "$(try version)" = "$version" ] || { echo "the image does not run version $version" >&2; exit 1; }
# The image has no stores: check-config names exactly that, and finds no other fault.
found=$(try check-config) || true
echo "$found" | grep -q "no faults found" || { echo "$found" >&2; exit 1; }
for python in /opt/identity/bin/python python3; do
    ! inside "$python" -c 'import pip' 2>/dev/null || { echo "the image contains pip" >&2; exit 1; }
done
echo "built and tried: $image"
