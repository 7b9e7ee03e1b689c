# The image of one service: docker build --build-arg SERVICE=storage --tag penstock/storage:0.1.0 .
# SERVICE is one of the extras that pyproject.toml has for services. Wheels bring what is compiled, so no compiler is needed.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# What all services need, once for all images.
FROM ${PYTHON_IMAGE} AS common
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# The images get no pip: that of this stage installs into an environment without one.
RUN python -m venv --without-pip /opt/penstock
COPY pyproject.toml constraints.txt ./
# Dependencies change rarely. Without the source among them, their layer stays in the cache.
RUN touch README.md && mkdir libs services \
    && pip --python /opt/penstock/bin/python install --constraint constraints.txt ".[metadata]"

FROM common AS wheel
COPY README.md LICENSE ./
COPY libs libs
COPY services services
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM common AS builder
ARG SERVICE
RUN python -c 'import sys, tomllib; \
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
services = sorted(extras.keys() - {"dev", "metadata"}); \
sys.argv[1] in services or sys.exit("SERVICE is {!r}; expected one of: {}".format(sys.argv[1], ", ".join(services)))' "${SERVICE}"
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/penstock/bin/python install --force-reinstall --no-deps /wheels/*.whl \
    && pip --python /opt/penstock/bin/python install --constraint constraints.txt "penstock[${SERVICE}]" \
    && printf '#!/bin/sh\nexec /opt/penstock/bin/python -m services.%s "$@"\n' "$(echo "${SERVICE}" | tr - _)" > /opt/penstock/bin/service \
    && chmod 755 /opt/penstock/bin/service

FROM ${PYTHON_IMAGE}
# glibc gives every thread its own heap by default, which costs tens of MB over all processes.
ENV PATH=/opt/penstock/bin:$PATH \
    MALLOC_ARENA_MAX=2 \
    PYTHONUNBUFFERED=1 \
    PENSTOCK_DATA_DIR=/var/lib/penstock \
    PENSTOCK_ADMIN_HOST=0.0.0.0 \
    PENSTOCK_ADMIN_PORT=9600
RUN groupadd --gid 10001 penstock \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/penstock --no-create-home --shell /usr/sbin/nologin penstock \
    && install -d -o penstock -g penstock -m 0700 /var/lib/penstock /run/penstock
# `get PATH [HOST]` prints what an admin port answers, and fails unless that is 200. bash needs no interpreter and no package.
RUN printf '%s\n' '#!/bin/bash' \
        'exec 3<>"/dev/tcp/${2:-127.0.0.1}/${PENSTOCK_ADMIN_PORT}" || exit' \
        'printf "GET %s HTTP/1.0\r\n\r\n" "$1" >&3' \
        'read -r _ status _ <&3' \
        'while read -r line && [ "$line" != $'"'\\r'"' ]; do :; done <&3' \
        'cat <&3' \
        '[ "$status" = 200 ]' > /usr/local/bin/get \
    && chmod 755 /usr/local/bin/get
ARG SERVICE
COPY --from=builder /opt/penstock /opt/penstock
# The base image has no bytecode of the standard library, and a read-only root cannot keep any. What the service uses is compiled here.
RUN python -c "import aiohttp.web, services.$(echo "${SERVICE}" | tr - _).__main__"
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/penstock
VOLUME /var/lib/penstock
# 9300: RPC of other services, by PENSTOCK_RPC_TCP. 9600: /healthz, /readyz, /health, /metrics and /debug.
EXPOSE 9300 9600
STOPSIGNAL SIGTERM
# Whether it serves, not whether it lives: Docker restarts no container for its health, and `docker compose up --wait` waits for it.
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s --retries=3 CMD ["get", "/readyz"]
ENTRYPOINT ["/opt/penstock/bin/service"]
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="penstock/${SERVICE}" \
      org.opencontainers.image.description="The ${SERVICE} of Penstock, a distributed replicated log that speaks the Kafka protocol" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
