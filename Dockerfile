# The image of one service: docker build --build-arg SERVICE=storage --tag penstock/storage:0.1.0 .
# SERVICE is a folder of services/ with hyphens for underscores, and an extra of pyproject.toml, unless EXTRA names that.
# Wheels bring what is compiled, so no image and no stage has a compiler.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# Dependencies only. The source is not among them, so that these layers stay in the cache and at the registry while it changes.
FROM ${PYTHON_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY pyproject.toml constraints.txt ./
# The project without packages and commands: its name, version and extras. The images get no pip.
RUN sed -i -E '/^\[(project\.(scripts|entry-points)|tool)/,$d' pyproject.toml && touch README.md \
    && pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/penstock \
    && pip --python /opt/penstock/bin/python install --constraint constraints.txt "$(echo /wheels/*.whl)[metadata,tracing]"

# The source, compiled once for all images. A read-only root cannot keep bytecode, and the base image has none of the standard
# library: what the services use of it is compiled by their import, and laid aside below /compiled.
FROM dependencies AS source
COPY libs /opt/penstock/lib/python3.11/site-packages/libs
COPY services /opt/penstock/lib/python3.11/site-packages/services
COPY services/dev/package/penstock /opt/penstock/lib/python3.11/site-packages/penstock
RUN cd /opt/penstock/lib/python3.11/site-packages && python -m compileall -q libs services penstock \
    && mains=$(ls services/*/__main__.py | grep -Ev '/(local|pipeline)/' | sed 's|/|.|g; s|.py$||' | paste -sd ,) \
    && mkdir /compiled /code && printf '%s\n' "import sys, aiohttp.web, $mains" \
        'for each in {str(getattr(module, "__cached__", None)) for module in sys.modules.values()}: print(each)' \
        | /opt/penstock/bin/python | grep '^/usr/' | xargs cp --parents --target-directory=/compiled \
    && mv libs services penstock /code

# What one service needs beyond that: the pipeline has packages of its own.
FROM dependencies AS packages
ARG SERVICE
ARG EXTRA=${SERVICE}
RUN pip --python /opt/penstock/bin/python install --constraint constraints.txt "$(echo /wheels/*.whl)[${EXTRA}]"

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
        'printf "GET %s HTTP/1.0\r\n" "$1" >&3' \
        '[ -z "$PENSTOCK_ADMIN_TOKEN_FILE" ] || printf "Authorization: Bearer %s\r\n" "$(cat "$PENSTOCK_ADMIN_TOKEN_FILE")" >&3' \
        'printf "\r\n" >&3' \
        'read -r _ status _ <&3' \
        'while read -r line <&3 && [ "${#line}" -gt 1 ]; do :; done' \
        'cat <&3' \
        '[ "$status" = 200 ]' > /usr/local/bin/get \
    && chmod 755 /usr/local/bin/get
# Before anything that depends on SERVICE: images whose services need the same packages share this layer, by far the largest.
COPY --from=packages /opt/penstock /opt/penstock
# Spark runs on Java. No other service has it. Java's package links its manual pages into a folder that slim images lack.
ARG SERVICE
RUN if [ "${SERVICE}" = pipeline ]; then \
        install -d /usr/share/man/man1 && apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps && rm -rf /var/lib/apt/lists/*; \
    fi
RUN --mount=type=bind,source=services,target=/services module=$(echo "${SERVICE:-none}" | tr - _) \
    && if [ "$module" = local ] || [ ! -f "/services/$module/__main__.py" ]; then \
        echo "SERVICE is '${SERVICE}'; expected one of:" $(cd /services && ls */__main__.py | cut -d/ -f1 | grep -v local | tr _ -) >&2; \
        exit 1; \
    fi \
    && printf '#!/bin/sh\nexec /opt/penstock/bin/python -m services.%s "$@"\n' "$module" > /usr/local/bin/service \
    && printf '#!/bin/sh\nexec get /readyz\n' > /usr/local/bin/is-ready \
    && if [ "$module" = pipeline ]; then \
        printf '#!/bin/sh\n# A driver serves nobody. It works while it runs.\nkill -0 1\n' > /usr/local/bin/is-ready; \
        sed -i '2i [ "$1" = executor ] \&\& exec /opt/penstock/bin/python -m services.pipeline.spark.executor' /usr/local/bin/service; \
    fi \
    && printf '#!/bin/sh\nexec /opt/penstock/bin/python -m penstock "$@"\n' > /usr/local/bin/penstock \
    && chmod 755 /usr/local/bin/service /usr/local/bin/is-ready /usr/local/bin/penstock
COPY --from=source /compiled /
COPY --from=source /code /opt/penstock/lib/python3.11/site-packages
# Compiles what this service imports and no other does.
RUN python -c "import aiohttp.web, services.$(echo "${SERVICE}" | tr - _).__main__"
# The Java packages of the pipeline, so that its pods start without Maven.
RUN if [ "${SERVICE}" = pipeline ]; then \
        python -m services.pipeline.spark.resolving \
            && cd /opt/penstock/lib/python3.11/site-packages/.tools/pipeline/ivy && chmod -R a+rX . && rm -rf cache; \
    fi
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/penstock
VOLUME /var/lib/penstock
# 9300: RPC of other services, by PENSTOCK_RPC_TCP. 9600: /healthz, /readyz, /health, /metrics and /debug.
EXPOSE 9300 9600
STOPSIGNAL SIGTERM
# Whether it serves, not whether it lives: Docker restarts no container for its health, and `docker compose up --wait` waits for it.
HEALTHCHECK --interval=5s --timeout=10s --start-period=120s --retries=3 CMD ["is-ready"]
ENTRYPOINT ["service"]
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="penstock/${SERVICE}" \
      org.opencontainers.image.description="The ${SERVICE} of Penstock, a distributed replicated log that speaks the Kafka protocol" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
